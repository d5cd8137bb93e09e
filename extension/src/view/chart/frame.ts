const waiting = new Set<() => void>();
let isAsked = false;

/** Call `draw` in the next animation frame, once, however often it is asked for before. */
export function onNextFrame(draw: () => void): void {
  waiting.add(draw);
  if (!isAsked) {
    isAsked = true;
    requestAnimationFrame(runAll);
  }
}

/** Don't call `draw` any more. */
export function forgetFrame(draw: () => void): void {
  waiting.delete(draw);
}

function runAll(): void {
  isAsked = false;
  const draws = [...waiting];
  waiting.clear();
  draws.forEach(draw => draw());
}
