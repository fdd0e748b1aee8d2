// Figures that scripts draw: each is drawn when it comes near, from the JSON that the page holds.

import { embedded } from "./dom";

type Draw<B> = (figure: HTMLElement, block: B) => void | Promise<void>;

const draws = new Map<string, Draw<never>>();
const begun = new WeakMap<Element, Promise<void>>();

/** Has a function draw the blocks of a kind. */
export function drawer<B>(kind: string, draw: Draw<B>): void {
  draws.set(kind, draw);
}

/** Draws a figure, once. */
export function draw(figure: HTMLElement): Promise<void> {
  let done = begun.get(figure);
  if (!done) {
    done = drawn(figure).catch((error: unknown) => {
      console.error(error);
      const line = figure.querySelector(".needs-scripts")!;
      line.textContent = "This could not be drawn.";
      line.classList.add("failed");
    });
    begun.set(figure, done);
  }
  return done;
}

async function drawn(figure: HTMLElement): Promise<void> {
  const block = embedded<never>(figure.dataset.json!);
  const found = draws.get(figure.dataset.block!);
  if (block && found) await found(figure, block);
  figure.querySelector(".needs-scripts")?.remove();
}

let near: IntersectionObserver | null = null;

function observer(): IntersectionObserver {
  near ??= new IntersectionObserver((entries) => {
    for (const entry of entries) {
      if (!entry.isIntersecting) continue;
      near!.unobserve(entry.target);
      void draw(entry.target as HTMLElement);
    }
  }, { rootMargin: "300px" });
  return near;
}

/** Has the figures within an element drawn when they come near. */
export function watch(within: ParentNode): void {
  for (const figure of within.querySelectorAll(".scripted")) observer().observe(figure);
}

/** Draws all figures now, such as those of hidden tabs. */
export async function drawAll(): Promise<void> {
  await Promise.all([...document.querySelectorAll<HTMLElement>(".scripted")].map(draw));
}

/** Draws the first figure of a kind now, wherever it is. */
export async function drawFirst(kind: string): Promise<void> {
  const figure = document.querySelector<HTMLElement>(`.scripted[data-block="${kind}"]`);
  if (figure) await draw(figure);
}
