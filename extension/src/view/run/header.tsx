import * as React from 'react';
import { formatCount, formatDuration, formatValue } from '../../model/numbers';
import { IProgressRow, IRunRow } from '../../wire';
import { stateWord } from '../words';
import { Actions } from './actions';
import { useSession, useTrans } from './context';

/** Name, state, progress and what can be done with the run. */
export function Header(): JSX.Element | null {
  const { main } = useSession();
  const { row } = main;
  if (!row) {
    return null;
  }
  const error = (row.state === 'failed' && main.facts?.error) || '';
  // The error says it in full.
  const reason = error.includes(row.reason) ? '' : row.reason;
  return (
    <header className="jp-JtrainRun-header">
      <div className="jp-JtrainRun-titleLine">
        <h2 className="jp-JtrainRun-name" title={row.name || row.id}>
          {row.name || row.id}
        </h2>
        <Badge row={row} isGone={main.phase === 'gone'} />
      </div>
      <div className="jp-JtrainRun-subtitle">
        <span className="jp-JtrainRun-id">{row.id}</span>
        <Tags tags={row.tags} />
      </div>
      {reason && reason !== row.state && (
        <div className="jp-JtrainRun-reason">{reason}</div>
      )}
      {error && (
        <pre className="jp-JtrainRun-error" tabIndex={0}>
          {error}
        </pre>
      )}
      {row.progress && <Progress progress={row.progress} />}
      <Actions row={row} />
    </header>
  );
}

function Badge(props: { row: IRunRow; isGone: boolean }): JSX.Element {
  const trans = useTrans();
  const state = props.isGone ? 'deleted' : props.row.state;
  return (
    <span className="jp-JtrainBadge" data-state={state} role="status">
      {stateWord(trans, state)}
    </span>
  );
}

function Tags({ tags }: { tags: IRunRow['tags'] }): JSX.Element {
  return (
    <>
      {Object.entries(tags).map(([name, value]) => (
        <span className="jp-JtrainTag" key={name} title={`${name}=${value}`}>
          {value ? `${name}=${value}` : name}
        </span>
      ))}
    </>
  );
}

function Progress({ progress }: { progress: IProgressRow }): JSX.Element {
  const trans = useTrans();
  const { fraction, step, total_steps, epoch, epochs } = progress;
  const percent = fraction === null ? undefined : Math.round(fraction * 100);
  const facts = [
    total_steps
      ? trans.__('step %1 of %2', formatCount(step), formatCount(total_steps))
      : trans.__('step %1', formatCount(step)),
    epochs > 1 && trans.__('epoch %1 of %2', epoch + 1, epochs),
    progress.loss !== null &&
      trans.__('loss %1', formatValue(Number(progress.loss))),
    progress.samples_per_s !== null &&
      trans.__('%1 samples/s', formatValue(round3(progress.samples_per_s))),
    progress.eta_s !== null &&
      trans.__('%1 left', formatDuration(Math.round(progress.eta_s)))
  ];
  return (
    <div className="jp-JtrainRun-progress">
      <div
        className="jp-JtrainBar"
        role="progressbar"
        aria-label={trans.__('Progress of the run')}
        aria-valuemin={0}
        aria-valuemax={100}
        aria-valuenow={percent}
        data-unknown={fraction === null}
      >
        <div
          className="jp-JtrainBar-done"
          style={{ width: `${(fraction ?? 0) * 100}%` }}
        />
      </div>
      <div className="jp-JtrainRun-facts">
        {facts.filter(Boolean).map(fact => (
          <span key={String(fact)}>{fact}</span>
        ))}
      </div>
    </div>
  );
}

function round3(value: number): number {
  return Number(value.toPrecision(3));
}
