/** Names by what stands before the first slash, in order of appearance; '' for those without. */
export function grouped(names: string[]): Map<string, string[]> {
  const groups = new Map<string, string[]>();
  for (const name of names) {
    const slash = name.indexOf('/');
    const group = slash > 0 ? name.slice(0, slash) : '';
    groups.set(group, [...(groups.get(group) ?? []), name]);
  }
  return groups;
}
