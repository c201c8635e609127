"""Requests that tell another program of a job's end.

    address    which hosts may be sent to: none of the private network, by default
    signature  how a receiver knows that a request is ours, and whole
    sender     one attempt to send it
    schedule   when another attempt is made, and when it is given up

What is to be sent is in `store.webhooks`, and `runner.webhooks` sends it.
"""
