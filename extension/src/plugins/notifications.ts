import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IEnding } from '../model/runs';
import { IJtrainService } from '../service';
import { took } from '../view/words';

const SHORT_MS = 8000;

/** A word when a run finishes or fails. */
export const notificationsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jtrain:notifications',
  description: 'Tells when a training run finishes or fails.',
  autoStart: true,
  requires: [IJtrainService],
  activate: (app: JupyterFrontEnd, jtrain: IJtrainService) => {
    jtrain.runs.ended.connect((_, ending) => {
      if (jtrain.settings.notifications) {
        tell(jtrain, ending);
      }
    });
  }
};

function tell(jtrain: IJtrainService, { run }: IEnding): void {
  const { trans } = jtrain;
  const name = run.name || run.id;
  const actions = [
    {
      label: trans.__('Show'),
      callback: () => jtrain.openRun(run.id, 'panel')
    }
  ];
  if (run.state === 'finished') {
    const time = took((run.ended ?? run.created) - run.created);
    Notification.success(trans.__('%1 has finished in %2.', name, time), {
      actions,
      autoClose: SHORT_MS
    });
    return;
  }
  const text =
    run.state === 'failed'
      ? trans.__('%1 has failed: %2', name, run.reason)
      : trans.__('%1 was interrupted: its supervisor has died.', name);
  Notification.error(text, { actions, autoClose: false });
}
