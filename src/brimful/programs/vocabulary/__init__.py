"""The operations that programs call: arc-dsl's, and those of the generator of batts."""
