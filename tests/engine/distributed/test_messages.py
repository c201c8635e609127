"""Messages between processes: any value arrives as it was, large arrays in memory that is the receiver's own."""

import multiprocessing
import os
import threading
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from brimful.core.base.ragged import Ragged
from brimful.engine.distributed.messages import Message, receive
from brimful.engine.distributed.tensor_pickles import LARGE
from brimful.engine.distributed.workers import Event, LocalWorkers

from . import worker_functions as functions

DTYPES = [
    torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64, torch.uint32, torch.float16,
    torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128, torch.float8_e4m3fn,
]  # fmt: skip
SHAPES = [(), (0,), (3, 0, 2), (1,), (7,), (3, 5), (LARGE,), (LARGE // 4 + 1, 3)]


def there(value: Any) -> Any:
    """A value after its way through a pipe."""
    ours, theirs = multiprocessing.Pipe()
    with ours, theirs:
        sender = threading.Thread(target=Message.of(value).send, args=(ours,))
        sender.start()
        received = receive(theirs)
        sender.join()
    return received


def same_bits(one: torch.Tensor, other: torch.Tensor) -> bool:
    assert (one.dtype, one.shape) == (other.dtype, other.shape)
    return one.reshape(-1).view(torch.uint8).tolist() == other.reshape(-1).view(torch.uint8).tolist()


@given(st.sampled_from(DTYPES), st.sampled_from(SHAPES), st.booleans())
def test_tensors_of_every_type_and_shape(dtype: torch.dtype, shape: tuple[int, ...], with_gaps: bool):
    tensor = torch.randint(0, 2, shape).to(dtype)
    if with_gaps and len(shape) == 2:
        tensor = tensor.t()[::2]
    arrived = there(tensor)
    assert same_bits(arrived, tensor.contiguous())
    arrived.zero_()  # it is the receiver's own


def test_whatever_else_a_message_holds():
    large, small = torch.rand(LARGE), np.arange(5.0)
    weight = torch.nn.Parameter(torch.rand(3))
    sparse = torch.eye(4).to_sparse()
    ragged = Ragged(torch.arange(LARGE), torch.tensor([0, 10, LARGE]))
    value = {"a": (large, [small, None]), "text": "x" * LARGE, "ragged": ragged, "rows": large.numpy()[::2]}
    arrived = there(value)
    assert torch.equal(arrived["a"][0], large) and np.array_equal(arrived["a"][1][0], small)
    assert arrived["text"] == value["text"] and np.array_equal(arrived["rows"], value["rows"])
    assert torch.equal(arrived["ragged"].values, ragged.values) and arrived["ragged"].lengths.tolist() == [
        10,
        LARGE - 10,
    ]
    others = there((weight, sparse, torch.rand(4, dtype=torch.complex64).conj(), np.array([None, "a"], object)))
    assert others[0].requires_grad and torch.equal(others[0], weight)
    assert torch.equal(others[1].to_dense(), torch.eye(4)) and others[3].tolist() == [None, "a"]


def test_large_arrays_are_not_in_the_pickle():
    message = Message.of((torch.zeros(LARGE), torch.zeros(10), np.zeros((LARGE, 2)).T))
    assert [view.nbytes for view in message.buffers] == [4 * LARGE, 16 * LARGE]
    assert len(message.content) < LARGE


def test_half_a_message_is_the_end_of_its_sender():
    ours, theirs = multiprocessing.Pipe()
    message = Message.of(torch.zeros(2 * LARGE))
    ours.send_bytes(message.content)
    os.write(ours.fileno(), message.buffers[0][:LARGE])
    ours.close()
    with theirs, pytest.raises(EOFError):
        receive(theirs)


def test_large_messages_of_several_threads_and_a_worker_that_ends_in_one():
    with LocalWorkers() as workers:
        workers.start("threads", functions.large_from_threads, 5)
        workers.start("half", functions.half_a_message)
        workers.send(0, torch.arange(LARGE))
        answers = []
        while workers.running:
            if (answer := workers.receive(60)) is not None:
                answers.append(answer)
    sent = [answer.value for answer in answers if answer.worker == 0 and answer.event is Event.SENT]
    assert sorted(number for number, _ in sent) == sorted(list(range(4)) * 5)
    assert all(torch.equal(tensor, torch.arange(LARGE) + number) for number, tensor in sent)
    (died,) = [answer for answer in answers if answer.worker == 1]
    assert (died.event, died.value) == (Event.DIED, "exit code 3")
