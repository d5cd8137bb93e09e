/** Whether a cell's text is the run's code below its `%%jtrain` line. */
export function isCellOf(cell: string, source: string): boolean {
  const body = source.trim();
  return body !== '' && cell.includes('%%jtrain') && cell.includes(body);
}
