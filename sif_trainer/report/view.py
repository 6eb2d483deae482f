"""Groups of completions in the terminal: vote, profiles, texts shaded by certainty. `sif view` prints them.

    for line in group_lines(groups[0]): console.print(line)

Everything is also there without colours, as when the output goes into a pipe.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import RenderableType
from rich.rule import Rule
from rich.table import Table
from rich.text import Text

from sif_trainer.report.completions import Group, Member

_BARS = "▁▂▃▄▅▆▇█"
_SHADES = (
    "",
    "on color(58)",
    "on color(94)",
    "on color(130)",
    "on color(166)",
)  # of tokens, the less certain the more
_GOOD = {"winner", "correct", "verified"}


def group_lines(group: Group) -> Iterator[RenderableType]:
    """Yield what is printed for a group: prompt, table of its responses, their texts."""
    yield Rule(Text(f"{group.where} · {group.id}"), style="bold")
    if group.prompt:
        yield Text(group.prompt)
    yield _responses(group)
    if any(member.windows_won for member in group.members):
        yield _who_beat_whom(group)
    for place, member in enumerate(group.members, 1):
        yield Text(f"\n{place} {member.badge}", style="bold green" if member.badge in _GOOD else "bold")
        yield _shaded(group, member)
        if member.num_cut:
            yield Text(f"… {member.num_cut:,} more characters are in the run's records", style="dim")


def _responses(group: Group) -> Table:
    """One row per response: what became of it, its profile as bars, its facts."""
    values = [value for member in group.members for value in member.profile or ()]
    table = _columns(["", "", *(["profile"] if values else []), *group.members[0].facts])
    for place, member in enumerate(group.members, 1):
        bars = [_bars(member.profile or (), values)] if values else []
        style = "green" if member.badge in _GOOD else ""
        table.add_row(*map(Text, [str(place), member.badge, *bars, *member.facts.values()]), style=style)
    return table


def _who_beat_whom(group: Group) -> Table:
    """Windows that each row's response won over each column's; a `*` marks a win over that peer."""
    table = _columns(["won over", *(str(place + 1) for place in range(len(group.members)))])
    for place, member in enumerate(group.members):
        cells = [str(place + 1)]
        for other, won in enumerate(member.windows_won or ()):
            win = group.window_wins is not None and won >= group.window_wins
            cells.append("·" if other == place else f"{won}{'*' if win else ''}")
        table.add_row(*map(Text, cells))
    return table


def _columns(names: Sequence[str]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in names:
        table.add_column(name, overflow="fold", no_wrap=name == "profile")
    return table


def _bars(profile: Sequence[float], values: Sequence[float]) -> str:
    """The profile as bars, on the scale of the whole group."""
    low, high = min(values), max(values)
    return "".join(_BARS[int((value - low) / ((high - low) or 1) * (len(_BARS) - 1))] for value in profile)


def _shaded(group: Group, member: Member) -> Text:
    if not member.tokens:
        return Text(member.text)
    values = sorted(value for one in group.members for value in one.certainty)
    low, high = values[len(values) // 50], values[int(0.9 * len(values))]
    text = Text()
    for token, certainty in zip(member.tokens, member.certainty, strict=True):
        level = round((len(_SHADES) - 1) * min(max((high - certainty) / ((high - low) or 1), 0), 1))
        text.append(token, style=_SHADES[level])
    return text
