import * as React from 'react';
import { isLiving } from '../model/runs';
import { IActionWish, IRunRow } from '../wire';
import { askPriority, doAction } from './acting';
import { useJtrain, useTrans } from './context';
import { Spark } from './parts/spark';
import { ago, stateWord, took } from './words';

export interface IRunRowProps {
  id: string;

  /** Its place in the list in pixels, and as a number from 1. */
  top: number;
  position: number;
  count: number;
}

/** One run in the list. */
export function RunRow(props: IRunRowProps): JSX.Element | null {
  const jtrain = useJtrain();
  const { runs, trans } = jtrain;
  const run = runs.get(props.id);
  if (!run) {
    return null;
  }
  const name = run.name || run.id;
  return (
    <li
      className="jp-JtrainRow"
      data-run={run.id}
      data-state={run.state}
      style={{ top: props.top }}
      aria-setsize={props.count}
      aria-posinset={props.position}
    >
      <button
        type="button"
        className="jp-JtrainRow-open"
        title={tooltip(run)}
        onClick={() => jtrain.openRun(run.id, 'panel')}
        onDoubleClick={() => jtrain.openRun(run.id, 'main')}
      >
        <span className="jp-JtrainRow-head">
          <span className="jp-JtrainBadge" data-state={run.state}>
            {stateWord(trans, run.state)}
          </span>
          <span className="jp-JtrainRow-name">{name}</span>
        </span>
        <span className="jp-JtrainRow-facts">
          <Facts run={run} />
        </span>
        <Bar run={run} />
      </button>
      <Spark
        values={runs.spark(run.id).map(Number)}
        label={trans.__('Main metric of %1', name)}
      />
      <RowActions run={run} />
    </li>
  );
}

function tooltip(run: IRunRow): string {
  const tags = Object.entries(run.tags).map(
    ([key, value]) => `${key}=${value}`
  );
  const parts = [run.name, run.id, tags.join(' '), run.reason, run.notebook];
  return [...new Set(parts.filter(Boolean))].join('\n');
}

function Facts({ run }: { run: IRunRow }): JSX.Element {
  const trans = useTrans();
  const now = Date.now() / 1000;
  const { progress } = run;
  if (isLiving(run) && progress) {
    const parts = [
      progress.total_steps
        ? `${progress.step} / ${progress.total_steps}`
        : trans.__('step %1', progress.step),
      progress.eta_s !== null && trans.__('%1 left', took(progress.eta_s))
    ];
    return <>{parts.filter(Boolean).join(' · ')}</>;
  }
  if (run.state === 'queued') {
    return <>{run.reason || trans.__('waiting for devices')}</>;
  }
  if (isLiving(run)) {
    return <>{ago(trans, now - run.created)}</>;
  }
  const ended = run.ended ?? run.created;
  return (
    <>
      {ago(trans, now - ended)}
      {run.ended !== null &&
        ` · ${trans.__('took %1', took(run.ended - run.created))}`}
    </>
  );
}

function Bar({ run }: { run: IRunRow }): JSX.Element | null {
  const trans = useTrans();
  const fraction = run.progress?.fraction;
  if (!isLiving(run) || fraction === undefined || fraction === null) {
    return null;
  }
  const percent = Math.round(100 * fraction);
  return (
    <span
      className="jp-JtrainMeter-bar"
      role="progressbar"
      aria-label={trans.__('Progress')}
      aria-valuemin={0}
      aria-valuemax={100}
      aria-valuenow={percent}
    >
      <span style={{ width: `${percent}%` }} />
    </span>
  );
}

function RowActions({ run }: { run: IRunRow }): JSX.Element {
  const jtrain = useJtrain();
  const { trans } = jtrain;
  const [isBusy, setBusy] = React.useState(false);
  const act = async (wish: IActionWish) => {
    setBusy(true);
    await doAction(jtrain, run, wish);
    setBusy(false);
  };
  const prioritise = async () => {
    const wish = await askPriority(jtrain, run);
    if (wish) {
      await act(wish);
    }
  };
  return (
    <span className="jp-JtrainRow-actions">
      {run.state === 'queued' && (
        <Act
          name="priority"
          label={trans.__('Priority')}
          isOff={isBusy}
          onClick={prioritise}
        />
      )}
      {run.can_pause && (
        <Act
          name="pause"
          label={trans.__('Pause')}
          isOff={isBusy}
          onClick={() => act({ action: 'pause' })}
        />
      )}
      {run.can_resume && (
        <Act
          name="resume"
          label={trans.__('Resume')}
          isOff={isBusy}
          onClick={() => act({ action: 'resume' })}
        />
      )}
      {run.can_stop && (
        <Act
          name="stop"
          label={trans.__('Stop')}
          isOff={isBusy}
          onClick={() => act({ action: 'stop' })}
        />
      )}
      {run.notebook && (
        <Act
          name="open-notebook"
          label={trans.__('Notebook')}
          isOff={false}
          onClick={async () => jtrain.openNotebook(run)}
        />
      )}
    </span>
  );
}

interface IActProps {
  name: string;
  label: string;
  isOff: boolean;
  onClick: () => Promise<void>;
}

function Act(props: IActProps): JSX.Element {
  return (
    <button
      type="button"
      className="jp-JtrainRow-action"
      data-action={props.name}
      disabled={props.isOff}
      onClick={() => void props.onClick()}
    >
      {props.label}
    </button>
  );
}
