import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { ICommandPalette, InputDialog } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { ReadonlyPartialJSONObject } from '@lumino/coreutils';
import { trainIcon } from '../icons';
import { isLiving } from '../model/runs';
import { openNotebook } from '../notebooks';
import { IJtrainService } from '../service';
import { doAction } from '../view/acting';
import { PANEL_ID } from '../view/panel';
import { Action, IRunRow } from '../wire';

/** Commands, and their places in the palette. */
export const commandsPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jtrain:commands',
  description: 'Commands for training runs.',
  autoStart: true,
  requires: [IJtrainService],
  optional: [ICommandPalette, IDocumentManager],
  activate: (
    app: JupyterFrontEnd,
    jtrain: IJtrainService,
    palette: ICommandPalette | null,
    documents: IDocumentManager | null
  ) => {
    const { trans } = jtrain;
    const { commands } = app;
    jtrain.onOpenNotebook = run =>
      void openNotebook(app, jtrain, documents, run);
    const runArgs = {
      args: {
        type: 'object' as const,
        properties: {
          run: { type: 'string', description: trans.__('The id of a run') },
          where: { type: 'string', enum: ['panel', 'main'] }
        }
      }
    };
    commands.addCommand('jtrain:open-panel', {
      label: trans.__('Show Training Runs and Devices'),
      icon: trainIcon,
      describedBy: { args: { type: 'object', properties: {} } },
      execute: () => app.shell.activateById(PANEL_ID)
    });
    commands.addCommand('jtrain:open-run', {
      label: trans.__('Open a Training Run…'),
      describedBy: runArgs,
      execute: async args => {
        const run = await chosen(jtrain, args, () => true);
        if (run) {
          jtrain.openRun(run, args.where === 'panel' ? 'panel' : 'main');
        }
      }
    });
    const act = (
      action: Action,
      label: string,
      fits: (run: IRunRow) => boolean
    ) =>
      commands.addCommand(`jtrain:${action}-run`, {
        label,
        describedBy: runArgs,
        execute: async args => {
          const id = await chosen(jtrain, args, fits);
          const run = id ? jtrain.runs.get(id) : undefined;
          return run ? doAction(jtrain, run, { action }) : null;
        }
      });
    act('pause', trans.__('Pause a Training Run…'), run => run.can_pause);
    act('resume', trans.__('Resume a Training Run…'), run => run.can_resume);
    act('stop', trans.__('Stop a Training Run…'), run => run.can_stop);
    commands.addCommand('jtrain:open-notebook-of-run', {
      label: trans.__('Show the Cell of a Training Run…'),
      describedBy: runArgs,
      execute: async args => {
        const id = await chosen(jtrain, args, run => !!run.notebook);
        const run = id ? jtrain.runs.get(id) : undefined;
        if (run) {
          jtrain.openNotebook(run);
        }
      }
    });
    const category = trans.__('Training');
    for (const command of [
      'jtrain:open-panel',
      'jtrain:open-run',
      'jtrain:pause-run',
      'jtrain:resume-run',
      'jtrain:stop-run',
      'jtrain:open-notebook-of-run'
    ]) {
      palette?.addItem({ command, category });
    }
  }
};

/** The run that the command was given, or that the user picks from those that fit. */
async function chosen(
  jtrain: IJtrainService,
  args: ReadonlyPartialJSONObject,
  fits: (run: IRunRow) => boolean
): Promise<string | null> {
  if (typeof args.run === 'string') {
    return args.run;
  }
  const { trans } = jtrain;
  const { runs } = await jtrain.api.runs();
  const rows = runs.filter(fits);
  rows.sort((a, b) => Number(isLiving(b)) - Number(isLiving(a)));
  const named = (run: IRunRow) =>
    run.name && run.name !== run.id
      ? `${run.id}  ${run.name}  (${run.state})`
      : `${run.id}  (${run.state})`;
  const items = rows.slice(0, 200).map(named);
  if (!items.length) {
    items.push(trans.__('there is no such run'));
  }
  const { value } = await InputDialog.getItem({
    title: trans.__('Which run?'),
    items
  });
  return rows.find(run => named(run) === value)?.id ?? null;
}
