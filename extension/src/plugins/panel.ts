import {
  ILabShell,
  ILayoutRestorer,
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import {
  IThemeManager,
  MainAreaWidget,
  WidgetTracker
} from '@jupyterlab/apputils';
import { ISettingRegistry } from '@jupyterlab/settingregistry';
import { IStateDB } from '@jupyterlab/statedb';
import { ITranslator, nullTranslator } from '@jupyterlab/translation';
import { Signal } from '@lumino/signaling';
import { trainIcon } from '../icons';
import { IJtrainService, Jtrain } from '../service';
import { IJtrainSettings } from '../tokens';
import { JtrainPanel } from '../view/panel';
import { RunView } from '../view/run';

const ID = 'jtrain:panel';
const SHOW_RUN = 'jtrain:open-run';
/** Under this name the page's state keeps which run the sidebar shows. */
const CHOSEN_RUN = 'jtrain:chosen-run';

/** The sidebar, the tabs of runs in the main area, and the service that the other plugins build on. */
export const panelPlugin: JupyterFrontEndPlugin<IJtrainService> = {
  id: ID,
  description: 'Devices and training runs in a sidebar.',
  autoStart: true,
  provides: IJtrainService,
  optional: [
    ILabShell,
    ILayoutRestorer,
    ISettingRegistry,
    IStateDB,
    IThemeManager,
    ITranslator
  ],
  activate: (
    app: JupyterFrontEnd,
    labShell: ILabShell | null,
    restorer: ILayoutRestorer | null,
    registry: ISettingRegistry | null,
    state: IStateDB | null,
    themes: IThemeManager | null,
    translator: ITranslator | null
  ): IJtrainService => {
    const trans = (translator ?? nullTranslator).load('jtrain');
    const themeChanged = themes?.themeChanged ?? new Signal({});
    const jtrain = new Jtrain(trans, themeChanged);
    const panel = new JtrainPanel(jtrain);
    const tabs = new WidgetTracker<MainAreaWidget<RunView>>({
      namespace: 'jtrain-runs'
    });
    jtrain.onOpenRun = (id, where) => {
      if (where === 'main') {
        openTab(app, tabs, jtrain, id);
      } else {
        app.shell.activateById(panel.id);
        panel.showRun(id);
      }
    };
    app.shell.add(panel, 'right', { rank: 600, type: 'jtrain' });
    if (restorer) {
      restorer.add(panel, panel.id);
      void restorer.restore(tabs, {
        command: SHOW_RUN,
        args: tab => ({ run: tab.content.runId, where: 'main' }),
        name: tab => tab.content.runId
      });
    }
    if (state) {
      void keepChosenRun(app, state, panel);
    }
    void followSettings(jtrain, registry, side => {
      // Notebook 7 has no sides that a widget can be moved between.
      if (labShell && side !== labShellSide(labShell, panel)) {
        app.shell.add(panel, side, { rank: 600, type: 'jtrain' });
      }
    });
    return jtrain;
  }
};

function labShellSide(shell: ILabShell, panel: JtrainPanel): 'left' | 'right' {
  for (const widget of shell.widgets('left')) {
    if (widget === panel) {
      return 'left';
    }
  }
  return 'right';
}

/** Show the run again that was shown before the page was loaded, and note which one is from now on. */
async function keepChosenRun(
  app: JupyterFrontEnd,
  state: IStateDB,
  panel: JtrainPanel
): Promise<void> {
  panel.runChanged.connect((_, run) => void state.save(CHOSEN_RUN, { run }));
  const [kept] = await Promise.all([state.fetch(CHOSEN_RUN), app.restored]);
  const { run } = (kept ?? {}) as { run?: unknown };
  if (typeof run === 'string') {
    panel.showRunLater(run);
  }
}

function openTab(
  app: JupyterFrontEnd,
  tabs: WidgetTracker<MainAreaWidget<RunView>>,
  jtrain: Jtrain,
  id: string
): void {
  let tab = tabs.find(other => other.content.runId === id);
  if (!tab) {
    tab = new MainAreaWidget({ content: new RunView(jtrain, id) });
    tab.id = `jtrain-run-${id}`;
    tab.title.icon = trainIcon;
    tab.title.closable = true;
    void tabs.add(tab);
  }
  if (!tab.isAttached) {
    app.shell.add(tab, 'main');
  }
  if (!tab.isAttached) {
    // The main area of Notebook 7 holds one document; below it there is room.
    app.shell.add(tab, 'down');
  }
  app.shell.activateById(tab.id);
}

async function followSettings(
  jtrain: Jtrain,
  registry: ISettingRegistry | null,
  place: (side: IJtrainSettings['side']) => void
): Promise<void> {
  if (!registry) {
    return;
  }
  try {
    const settings = await registry.load(ID);
    const apply = () => {
      jtrain.setSettings(settings.composite as Partial<IJtrainSettings>);
      place(jtrain.settings.side);
    };
    settings.changed.connect(apply);
    apply();
  } catch (error) {
    console.warn('The settings of jtrain could not be read.', error);
  }
}
