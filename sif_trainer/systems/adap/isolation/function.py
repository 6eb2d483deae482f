"""Call one function of a candidate program: `python function.py < request`, within the walls of `enter.py`.

The request is {"function": name, "arguments": [...]}; the program is `main.py` beside. What the function returns is
written as JSON to file descriptor 3. The program can write there as well: a value is all that it could put there, and
values are judged elsewhere.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

PRELUDE = """
import bisect, collections, copy, functools, heapq, itertools, json, math, operator, random, re, string, sys, time
from bisect import bisect_left, bisect_right, insort
from collections import *
from functools import cache, cmp_to_key, lru_cache, partial, reduce
from heapq import *
from itertools import *
from math import ceil, comb, factorial, floor, gcd, inf, isqrt, lcm, log, log2, perm, sqrt
from typing import *
"""


def plain(value: Any) -> Any:
    """Numbers and arrays of numpy as JSON takes them."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"the function returned a {type(value).__name__}, which is no JSON value")


def main() -> None:
    write, end, dumps = os.write, os._exit, json.dumps
    request = json.load(sys.stdin)
    sys.setrecursionlimit(50_000)
    scope: dict[str, Any] = {"__name__": "candidate"}
    exec(PRELUDE, scope)
    with open("main.py", encoding="utf-8", errors="surrogatepass") as file:
        exec(compile(file.read(), "main.py", "exec"), scope)
    name = request["function"]
    solution = scope.get("Solution")
    function = getattr(solution(), name) if isinstance(solution, type) and hasattr(solution, name) else scope[name]
    result = dumps(function(*request["arguments"]), default=plain).encode()
    while result:
        result = result[write(3, result) :]
    end(0)  # threads and exit handlers of the program have no say any more


if __name__ == "__main__":
    main()
