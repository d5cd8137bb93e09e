import * as React from 'react';
import { Axis } from '../../model/series';
import { useSession, useTrans } from './context';
import { useSignal } from './hooks';
import { Overlay } from './overlay';

/** The largest weight of the running mean; 1 would never move. */
const MOST_SMOOTHING = 0.99;

/** How all charts of the view are drawn. */
export function Controls(): JSX.Element {
  const { viewport } = useSession();
  const trans = useTrans();
  useSignal(viewport.changed);
  const { axis, isLog, smoothing, range } = viewport.state;
  const slider = React.useId();
  const choose = (chosen: Axis) => () => viewport.update({ axis: chosen });
  return (
    <div
      className="jp-JtrainRun-controls"
      role="toolbar"
      aria-label={trans.__('Charts')}
    >
      <div
        className="jp-JtrainSwitch"
        role="radiogroup"
        aria-label={trans.__('Horizontal axis')}
      >
        <Choice
          label={trans.__('Step')}
          name="step"
          isChosen={axis === 'step'}
          onClick={choose('step')}
        />
        <Choice
          label={trans.__('Time')}
          name="time"
          isChosen={axis === 'time'}
          onClick={choose('time')}
        />
      </div>
      <button
        type="button"
        className="jp-JtrainRun-button"
        data-control="log"
        aria-pressed={isLog}
        title={trans.__('Logarithmic vertical axis')}
        onClick={() => viewport.update({ isLog: !isLog })}
      >
        {trans.__('Log')}
      </button>
      <Overlay />
      <label className="jp-JtrainRun-slider" htmlFor={slider}>
        <span>{trans.__('Smoothing')}</span>
        <input
          id={slider}
          type="range"
          min={0}
          max={MOST_SMOOTHING}
          step={0.01}
          value={smoothing}
          data-control="smoothing"
          onChange={event =>
            viewport.update({ smoothing: event.target.valueAsNumber })
          }
        />
        <output htmlFor={slider}>{smoothing.toFixed(2)}</output>
      </label>
      <button
        type="button"
        className="jp-JtrainRun-button"
        data-control="reset"
        aria-label={trans.__('Reset zoom')}
        disabled={range === null}
        title={trans.__('Show everything (double click in a chart)')}
        onClick={() => viewport.reset()}
      >
        {trans.__('Reset')}
      </button>
    </div>
  );
}

interface IChoiceProps {
  label: string;
  name: string;
  isChosen: boolean;
  onClick: () => void;
}

function Choice(props: IChoiceProps): JSX.Element {
  return (
    <button
      type="button"
      role="radio"
      aria-checked={props.isChosen}
      data-axis={props.name}
      onClick={props.onClick}
    >
      {props.label}
    </button>
  );
}
