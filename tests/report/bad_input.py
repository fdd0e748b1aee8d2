"""Texts that try to act, or will not fit."""

# All at once: markup, markup of the terminal, templates, and what does not show.
HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" ' `{{ 7 * 7 }}` [bold red]"
    "\u2028\u2029\u202egnp.exe\u2066\u200b\ufeff\x00\x07\x1b[31m\x9b31m\ud800"
)
HOSTILE_TEXTS = (
    "</script><script>window.hit=1;alert(1)</script>",  # script
    "]]><!-- --><![CDATA[ <svg onload=window.hit=1>",  # cdata
    "<!--<script>window.hit=1//",  # comment
    "\"><img src=x onerror=window.hit=1> ' ` ${window.hit=1} {{ 7 * 7 }} javascript:",
    "a\u2028b\u2029c\u0085d\r\ne\tf",  # separators
    "\u202egnp.exe\u2066\u2067\u200f\u061c\u200b\ufeff",  # directions
    "👩‍👩‍👧🏳️‍🌈😀" * 12,  # emoji
    "שכבה/רכיב/الطبقة الأولى/مقياس" * 3,  # right to left
    "Z" + "\u0351\u036b\u0343\u032a" * 200,  # combining
    "w" * 100_000,  # long
    "/".join(["..", "C:\\x", "//evil.example/a?b=c&d=e#f%00"] * 40),  # path
)
