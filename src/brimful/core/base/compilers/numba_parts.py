"""Functions that only compiled functions call, without machine code of their own.

By itself numba optimizes every function together with all that it calls and makes machine code of it, so that what lies
deep is compiled once for every function above it. A part is left as it was written until the function that Python calls
takes it up, and is optimized once, with all the others.

This uses numba's compiler from within. Where a version of numba has it otherwise, parts are compiled as numba does.
"""

import functools
from collections.abc import Callable
from typing import Any

import numba
from numba import types

_LEFT_OUT = {
    "WithLifting", "InlineClosureLikes", "RewriteSemanticConstants", "DeadBranchPrune", "RewriteDynamicRaises",
    "MakeFunctionToJitFunction", "InlineInlinables", "FindLiterallyCalls", "LiteralUnroll",
    "LiteralPropagationSubPipelinePass", "InlineOverloads", "NopythonRewrites", "DumpParforDiagnostics",
    "NoPythonSupportedFeatureValidation",
}  # fmt: skip
"""Passes for what parts may not have: closures, `with`, literals as arguments, arithmetic on whole arrays."""


def part(**settings: Any) -> Any:
    """`numba.njit` for functions that only compiled functions call. Nothing of them is kept on disk: what Python calls
    is, and holds all its parts. They are plain loops over numbers: no closures, nothing on whole arrays.

    Args:
        settings: as for `numba.njit`.
    """
    pipeline = _pipeline()
    own = {} if pipeline is None else {"pipeline_class": pipeline}
    njit: Any = numba.njit

    def compiled(function: Callable[..., Any]) -> Any:
        dispatcher = njit(no_cpython_wrapper=True, no_cfunc_wrapper=True, **own, **settings)(function)
        resolve = dispatcher.get_call_template

        def get_call_template(args: Any, kws: Any) -> Any:
            """By itself numba compiles a function again for every number that stands in a call."""
            plain = {name: types.unliteral(kind) for name, kind in kws.items()}
            return resolve(tuple(map(types.unliteral, args)), plain)

        dispatcher.get_call_template = get_call_template
        return dispatcher

    return compiled


@functools.cache
def _pipeline() -> Any:
    """How numba compiles a part; None where this version of it cannot."""
    try:
        from numba.core import codegen, compiler, compiler_machinery, typed_passes

        passes: Any = typed_passes
        builder: Any = compiler.DefaultPassBuilder

        class Library(codegen.JITCodeLibrary):
            """Code that is not optimized, nor made executable, before it is linked into what calls it."""

            def add_llvm_module(self, ll_module: Any) -> None:
                self._final_module.link_in(ll_module)

            def finalize(self) -> None:
                self._raise_if_finalized()
                for library in dict.fromkeys(self._linking_libraries):
                    self._reload_init.update(library._reload_init)
                    self._final_module.link_in(library._get_module_for_linking(), preserve=True)
                self._finalized = True

        @compiler_machinery.register_pass(mutates_CFG=True, analysis_only=False)
        class LowerPart(passes.NativeLowering):
            """As numba lowers a function, up to the point where it would be made executable."""

            _name = "lower_part"

            def run_pass(self, state: Any) -> bool:
                state.library = Library(state.targetctx.codegen(), state.func_id.func_qualname)
                state.flags.no_compile = True
                super().run_pass(state)
                lowered, key = state["cr"], {}.pop  # a built-in function, as numba asks for, unlike any other
                state.targetctx.insert_user_function(key, lowered.fndesc, [state.library])
                state["cr"] = lowered._replace(cfunc=key)
                return True

        class Pipeline(compiler.CompilerBase):
            def define_pipelines(self) -> list[Any]:
                manager = builder.define_nopython_pipeline(self.state)
                manager.passes = [
                    (LowerPart if kind is passes.NativeLowering else kind, text)
                    for kind, text in manager.passes
                    if kind.__name__ not in _LEFT_OUT
                ]
                manager.finalize()
                return [manager]

        return Pipeline
    except (AttributeError, ImportError):
        return None
