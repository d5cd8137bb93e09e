import {
  Dialog,
  InputDialog,
  Notification,
  showDialog
} from '@jupyterlab/apputils';
import { IJtrain } from '../tokens';
import { IActionWish, IRunRow } from '../wire';

/**
 * Ask a run for something, after asking the user where it can't be undone, and tell what came of it.
 * Returns the id of the run that it concerns now, or null when nothing was done.
 */
export async function doAction(
  jtrain: IJtrain,
  run: IRunRow,
  wish: IActionWish
): Promise<string | null> {
  if (wish.action === 'stop' && !(await confirmStop(jtrain, run))) {
    return null;
  }
  try {
    const answer = await jtrain.api.act(run.id, wish);
    Notification.info(answer.text, { autoClose: 4000 });
    return answer.run;
  } catch (error) {
    Notification.error((error as Error).message, { autoClose: false });
    return null;
  }
}

/** Ask for the place in the line that a waiting run shall have; null when the user thinks better of it. */
export async function askPriority(
  jtrain: IJtrain,
  run: IRunRow
): Promise<IActionWish | null> {
  const { trans } = jtrain;
  const { value } = await InputDialog.getNumber({
    title: trans.__('Priority of %1', run.name || run.id),
    label: trans.__('Runs with a higher number get devices first.'),
    value: run.priority
  });
  return value === null
    ? null
    : { action: 'priority', priority: Math.round(value) };
}

async function confirmStop(jtrain: IJtrain, run: IRunRow): Promise<boolean> {
  const { trans } = jtrain;
  const { button } = await showDialog({
    title: trans.__('Stop the run?'),
    body: trans.__(
      '%1 ends at once, without a checkpoint. Its checkpoints so far and its logs stay.',
      run.name || run.id
    ),
    buttons: [
      Dialog.cancelButton({ label: trans.__('Cancel') }),
      Dialog.warnButton({ label: trans.__('Stop') })
    ]
  });
  return button.accept;
}
