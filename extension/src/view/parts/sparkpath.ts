export interface ISparkProps {
  values: readonly (number | null)[];

  /** What it shows, for those who can't see it. */
  label: string;

  /** The ends of the axis; taken from the values when they aren't given. */
  low?: number;
  high?: number;

  /** How many values fill the width; as many as there are when it isn't given. New ones come in from the right. */
  span?: number;
}

export const WIDTH = 100;
export const HEIGHT = 24;

/** The line as commands of an SVG path; empty when there are less than two values to draw. */
export function sparkPath(props: ISparkProps): string {
  const { values } = props;
  const finite = values.filter(isFiniteNumber);
  if (finite.length < 2) {
    return '';
  }
  const low = props.low ?? Math.min(...finite);
  const high = props.high ?? Math.max(...finite);
  const range = high - low || 1;
  const span = Math.max(props.span ?? values.length, 2);
  const offset = span - values.length;
  let path = '';
  let isDrawing = false;
  values.forEach((value, index) => {
    if (isFiniteNumber(value)) {
      const x = (WIDTH * (index + offset)) / (span - 1);
      const share = Math.min(1, Math.max(0, (value - low) / range));
      const y = HEIGHT - 1 - (HEIGHT - 2) * share;
      path += `${isDrawing ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`;
    }
    isDrawing = isFiniteNumber(value);
  });
  return path;
}

function isFiniteNumber(value: number | null): value is number {
  return value !== null && Number.isFinite(value);
}
