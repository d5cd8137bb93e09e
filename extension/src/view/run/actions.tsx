import * as React from 'react';
import { IActionWish, IRunRow } from '../../wire';
import { askPriority, doAction } from '../acting';
import { useSession, useTrans } from './context';

/** Buttons for what can be done with the run now. */
export function Actions({ row }: { row: IRunRow }): JSX.Element {
  const { jtrain, main } = useSession();
  const trans = useTrans();
  const [isBusy, setBusy] = React.useState(false);
  const isGone = main.phase === 'gone';
  const doIt = async (wish: IActionWish) => {
    setBusy(true);
    const id = await doAction(jtrain, row, wish);
    setBusy(false);
    if (id && id !== row.id) {
      jtrain.openRun(id, 'panel');
    }
  };
  const prioritise = async () => {
    const wish = await askPriority(jtrain, row);
    if (wish) {
      await doIt(wish);
    }
  };
  return (
    <div
      className="jp-JtrainRun-actions"
      role="group"
      aria-label={trans.__('Actions')}
    >
      {row.state === 'queued' && (
        <Action
          name="priority"
          label={trans.__('Priority')}
          title={trans.__('Change its place in the line')}
          isOff={isBusy || isGone}
          onClick={() => void prioritise()}
        />
      )}
      {row.can_pause && (
        <Action
          name="pause"
          label={trans.__('Pause')}
          title={trans.__('Write a checkpoint and give the devices back')}
          isOff={isBusy || isGone}
          onClick={() => void doIt({ action: 'pause' })}
        />
      )}
      {row.can_resume && (
        <Action
          name="resume"
          label={trans.__('Resume')}
          title={trans.__('Go on from the last checkpoint')}
          isOff={isBusy || isGone}
          onClick={() => void doIt({ action: 'resume' })}
        />
      )}
      {row.can_stop && (
        <Action
          name="stop"
          label={trans.__('Stop')}
          title={trans.__('End the run for good')}
          isOff={isBusy || isGone}
          onClick={() => void doIt({ action: 'stop' })}
        />
      )}
      {row.notebook && (
        <Action
          name="open-notebook"
          label={trans.__('Notebook')}
          title={trans.__('Show the cell of this run in %1', row.notebook)}
          onClick={() => jtrain.openNotebook(row)}
        />
      )}
      <Action
        name="open-large"
        label={trans.__('Open large')}
        title={trans.__('Open this run in a tab of the main area')}
        onClick={() => jtrain.openRun(row.id, 'main')}
      />
    </div>
  );
}

interface IActionProps {
  name: string;
  label: string;
  title: string;
  isOff?: boolean;
  onClick: () => void;
}

function Action(props: IActionProps): JSX.Element {
  return (
    <button
      type="button"
      className="jp-JtrainRun-button"
      data-action={props.name}
      title={props.title}
      disabled={props.isOff}
      onClick={props.onClick}
    >
      {props.label}
    </button>
  );
}
