import * as React from 'react';

export interface IMeterProps {
  label: string;

  /** 0 to 1; `null` when it isn't known. */
  share: number | null;
  text: string;

  /** Why there is no number. */
  reason?: string;
}

/** A bar with its name and its figure. */
export function Meter(props: IMeterProps): JSX.Element {
  const percent =
    props.share === null ? undefined : Math.round(100 * props.share);
  return (
    <div className="jp-JtrainMeter" title={props.reason}>
      <span className="jp-JtrainMeter-label">{props.label}</span>
      <div
        className="jp-JtrainMeter-bar"
        role="meter"
        aria-label={props.label}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        aria-valuetext={props.text}
      >
        <div style={{ width: `${percent ?? 0}%` }} />
      </div>
      <span className="jp-JtrainMeter-text">{props.text}</span>
    </div>
  );
}
