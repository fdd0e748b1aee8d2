// Where the reader is: marked in the contents, and led from place to place by keys.

begin(() => {
  const nav = document.querySelector(".contents");
  const fold = nav?.querySelector("details");
  const here = nav?.querySelector(".contents-here");
  const links = new Map([...(nav?.querySelectorAll("a") ?? [])]
    .map((link) => [decodeURIComponent(link.hash.slice(1)), link]));
  const sections = [...document.querySelectorAll("main > section")];
  // The place led to last, and how far the page was scrolled then: the last sections may be too
  // short to reach the top of the window.
  let led = { place: null, at: -1 };

  const edge = () => (parseFloat(getComputedStyle(document.documentElement).scrollPaddingTop) || 0) + 8;

  function mark(section) {
    for (const [id, link] of links) {
      if (id === section?.id) link.setAttribute("aria-current", "location");
      else link.removeAttribute("aria-current");
    }
    if (here) here.textContent = links.get(section?.id)?.firstChild.data.trim() ?? "";
  }

  function current() {
    const top = edge() + 32;
    const passed = sections.findLast((section) => section.getBoundingClientRect().top <= top);
    const isAtEnd = innerHeight + scrollY >= document.documentElement.scrollHeight - 2;
    if (!isAtEnd || scrollY === 0) return passed ?? sections[0];
    const target = led.place?.closest("main > section");
    return target && target.getBoundingClientRect().top > 0 ? target : sections.at(-1);
  }

  let asked = false;
  const look = () => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      mark(current());
    });
  };
  window.addEventListener("scroll", look, { passive: true });
  window.addEventListener("resize", look);
  window.addEventListener("hashchange", () => {
    const target = document.getElementById(state.anchor());
    if (target) led = { place: target, at: scrollY };
    look();
  });
  look();

  nav?.addEventListener("click", (event) => {
    if (fold && event.target.closest("a")) fold.open = false;
  });
  nav?.addEventListener("keydown", (event) => {
    if (event.key !== "Escape" || !fold?.open) return;
    fold.open = false;
    fold.querySelector("summary").focus();
  });

  function lead(direction) {
    const places = [...document.querySelectorAll("main > section, article.finding")]
      .filter((place) => place.checkVisibility?.() ?? true);
    const line = edge();
    const index = led.at === scrollY && places.includes(led.place)
      ? places.indexOf(led.place)
      : places.findLastIndex((place) => place.getBoundingClientRect().top <= line);
    const place = places[Math.min(places.length - 1, Math.max(0, index + direction))];
    if (!place) return;
    place.scrollIntoView();
    led = { place, at: scrollY };
    // What is read or tabbed to next begins here.
    const heading = place.querySelector("h2, h3");
    if (heading) {
      heading.tabIndex = -1;
      heading.focus({ preventScroll: true });
    }
    mark(place.closest("main > section"));
  }

  keys.add("j", "Next section or finding", () => lead(1));
  keys.add("k", "Section or finding before", () => lead(-1));
});
