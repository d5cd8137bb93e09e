/** How far a cell's text is the code of a run: below its `%%jtrain` line, or as a function that was launched. */
enum Likeness {
  None,

  /** The code stands somewhere in it. */
  Contains,

  /** It is the code and nothing else. */
  Is
}

/** The place of the cell whose code a run ran (`source`), among the texts of a notebook's cells; -1 for none. */
export function findCell(
  cells: readonly string[],
  source: string,
  isFunction: boolean
): number {
  const likenesses = cells.map(cell => likeness(cell, source, isFunction));
  const best = Math.max(Likeness.None, ...likenesses);
  return best === Likeness.None ? -1 : likenesses.indexOf(best);
}

function likeness(cell: string, source: string, isFunction: boolean): Likeness {
  const code = source.trim();
  if (!code || (!isFunction && !cell.includes('%%jtrain'))) {
    return Likeness.None;
  }
  const body = isFunction ? cell : cell.replace(/^[^]*?%%jtrain.*/, '');
  if (body.trim() === code) {
    return Likeness.Is;
  }
  return body.includes(code) ? Likeness.Contains : Likeness.None;
}
