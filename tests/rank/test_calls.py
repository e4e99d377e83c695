"""Functions are wrapped where their module has them, and a script that is instrumented stays what it was."""

from __future__ import annotations

import inspect
import math
import sys
from pathlib import Path

import pytest

from chaoskit.faults.kill import Kill
from chaoskit.model import Injection, Phase, Trigger
from chaoskit.rank import calls
from chaoskit.rank.triggers import Shot, shots_of


def shot(name: str, nth: int = 1, phase: str = "before") -> Shot:
    when = Trigger("call", call=name, nth=nth, phase=Phase(phase))
    return shots_of((Injection(Kill((0,)), when),), 0)[0]


@pytest.mark.parametrize(("phase", "order"), [("before", "f1"), ("after", "1f")])
def test_a_function_is_wrapped_where_its_module_has_it(
    phase: str, order: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[str] = []
    monkeypatch.setattr(math, "cbrt", lambda x: seen.append(str(x)))
    calls.wrap_call(shot("math.cbrt", 2, phase), lambda _: seen.append("f"))
    math.cbrt(0)
    math.cbrt(1)
    math.cbrt(2)
    assert "".join(seen) == f"0{order}2"


@pytest.mark.parametrize("name", ["math.no_such", "math.pi.no_such", "torch.no_such"])
def test_a_name_that_torch_and_the_standard_library_do_not_have_raises(name: str) -> None:
    with pytest.raises(AttributeError):
        calls.watch([shot(name)], lambda _: None)


def test_a_module_of_the_scripts_is_not_imported_before_the_script_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "lazy_one.py").write_text(
        "from math import sin\nclass A:\n    def f(self):\n        return 5\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))
    fired: list[Shot] = []
    calls.watch([shot("lazy_one.A.f"), shot("lazy_one.A"), shot("lazy_one.no.such")], fired.append)
    assert "lazy_one" not in sys.modules
    from lazy_one import A  # type: ignore[import-not-found]

    thing = A()
    assert [s.when.call for s in fired] == ["lazy_one.A"]
    assert thing.f() == 5
    assert [s.when.call for s in fired] == ["lazy_one.A", "lazy_one.A.f"]
    assert isinstance(A, type) and isinstance(thing, A)
    assert inspect.getsource(A).startswith("class A")
    assert "exec_module" not in vars(sys.modules["lazy_one"].__spec__.loader)  # type: ignore[union-attr]
    monkeypatch.delitem(sys.modules, "lazy_one")


def test_an_instrumented_script_keeps_its_lines_and_its_names(monkeypatch: pytest.MonkeyPatch) -> None:
    source = (
        "from __future__ import annotations\n"
        "if True:\n"
        "    def f(x: Nowhere):\n"
        "        'doc'\n"
        "        return x + 1\n"
        "class C:\n"
        "    @staticmethod\n"
        "    def g(x):\n"
        "        return f(x)\n"
        "names = sorted(n for n in globals() if not n.startswith('__'))\n"
        "result = C.g(1), C().g(2)\n"
    )
    plain: dict[str, object] = {"__name__": "__main__"}
    exec(compile(source, "s.py", "exec", dont_inherit=True), plain)
    monkeypatch.setattr(calls, "_in_script", {})
    monkeypatch.setattr("runpy._run_code", None)
    fired: list[str] = []
    calls.watch([shot("__main__.f", 2), shot("__main__.C.g")], lambda s: fired.append(s.when.call))
    seen: dict[str, object] = {"__name__": "__main__"}
    exec(calls.compiled(source, "s.py"), seen)
    assert fired == ["__main__.C.g", "__main__.f"]
    assert (seen["names"], seen["result"]) == (plain["names"], plain["result"])
    f, g = seen["f"], plain["f"]
    assert inspect.unwrap(f).__code__.co_firstlineno == g.__code__.co_firstlineno == 3  # type: ignore[arg-type, attr-defined]
    assert (f.__doc__, f.__qualname__, f.__annotations__) == (g.__doc__, g.__qualname__, g.__annotations__)  # type: ignore[attr-defined]


def test_without_a_trigger_in_it_a_script_is_compiled_as_it_is() -> None:
    assert calls.compiled(b"# -*- coding: latin-1 -*-\nx = '\xe9'\n", "s.py").co_filename == "s.py"
