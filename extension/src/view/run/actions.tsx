import { Dialog, Notification, showDialog } from '@jupyterlab/apputils';
import * as React from 'react';
import { IJtrain } from '../../tokens';
import { IActionWish, IRunRow } from '../../wire';
import { useSession, useTrans } from './context';

/** Ask the run for something and tell the user what came of it. Returns the id of the run that it concerns now. */
export async function act(
  jtrain: IJtrain,
  id: string,
  wish: IActionWish
): Promise<string | null> {
  try {
    const answer = await jtrain.api.act(id, wish);
    Notification.info(answer.text, { autoClose: 4000 });
    return answer.run;
  } catch (error) {
    const text = error instanceof Error ? error.message : String(error);
    Notification.error(text, { autoClose: false });
    return null;
  }
}

/** Buttons for what can be done with the run now. */
export function Actions({ row }: { row: IRunRow }): JSX.Element {
  const { jtrain, main } = useSession();
  const trans = useTrans();
  const [isBusy, setBusy] = React.useState(false);
  const isGone = main.phase === 'gone';
  const doIt = async (wish: IActionWish) => {
    setBusy(true);
    const id = await act(jtrain, row.id, wish);
    setBusy(false);
    if (id && id !== row.id) {
      jtrain.openRun(id, 'panel');
    }
  };
  const stop = async () => {
    const { button } = await showDialog({
      title: trans.__('Stop the run?'),
      body: trans.__(
        '%1 will end for good. Its checkpoints and logs stay.',
        row.name || row.id
      ),
      buttons: [
        Dialog.cancelButton({ label: trans.__('Cancel') }),
        Dialog.warnButton({ label: trans.__('Stop') })
      ]
    });
    if (button.accept) {
      await doIt({ action: 'stop' });
    }
  };
  return (
    <div
      className="jp-JtrainRun-actions"
      role="group"
      aria-label={trans.__('Actions')}
    >
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
          onClick={() => void stop()}
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
