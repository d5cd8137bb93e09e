import * as React from 'react';
import { HEIGHT, ISparkProps, sparkPath, WIDTH } from './sparkpath';

/** So many samples wide is the line of a device at first; it grows to the five minutes that are kept. */
export const SHORT_PAST = 60;

/** A small line without axes; a value that isn't a finite number is a gap. */
export function Spark(props: ISparkProps): JSX.Element | null {
  const path = sparkPath(props);
  if (!path) {
    return null;
  }
  return (
    <svg
      className="jp-JtrainSpark"
      viewBox={`0 0 ${WIDTH} ${HEIGHT}`}
      preserveAspectRatio="none"
      role="img"
      aria-label={props.label}
    >
      <path d={path} />
    </svg>
  );
}
