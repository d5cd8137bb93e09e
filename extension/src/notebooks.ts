import { JupyterFrontEnd } from '@jupyterlab/application';
import { Notification } from '@jupyterlab/apputils';
import { IDocumentManager } from '@jupyterlab/docmanager';
import { findCell } from './notebooktext';
import { IJtrain } from './tokens';
import { IRunRow } from './wire';

/** The little of a notebook's widget that is needed here. */
interface INotebook {
  activeCellIndex: number;
  widgets: { model: { sharedModel: { getSource(): string } } }[];
  scrollToItem(index: number): Promise<void>;
}

/** Open the notebook that a run was started from, at the run's cell. */
export async function openNotebook(
  app: JupyterFrontEnd,
  jtrain: IJtrain,
  documents: IDocumentManager | null,
  run: IRunRow
): Promise<void> {
  const { trans } = jtrain;
  const path = jtrain.runs.notebookPath(run);
  if (!documents || path === null) {
    Notification.warning(
      trans.__(
        'The notebook %1 is outside of the folder that this server shows.',
        run.notebook
      ),
      { autoClose: 6000 }
    );
    return;
  }
  // What stands in this page is shown past the manager, because in Notebook 7 that one opens another page and closes
  // the document here.
  const shown = documents.findWidget(path);
  const widget = shown ?? documents.openOrReveal(path);
  if (shown) {
    app.shell.activateById(shown.id);
  }
  if (!widget) {
    Notification.warning(
      trans.__('The notebook %1 could not be opened.', run.notebook),
      { autoClose: 6000 }
    );
    return;
  }
  if (widget.isDisposed) {
    return; // it is shown in a page of its own
  }
  await widget.context.ready;
  await widget.revealed;
  const { source, spec } = await jtrain.api.run(run.id);
  const notebook = widget.content as unknown as INotebook;
  const cells = (notebook.widgets ?? []).map(cell =>
    cell.model.sharedModel.getSource()
  );
  const index = findCell(cells, source, spec.source === 'function');
  if (index < 0) {
    Notification.info(
      trans.__('The cell of this run has changed or is gone.'),
      { autoClose: 4000 }
    );
    return;
  }
  notebook.activeCellIndex = index;
  await notebook.scrollToItem(index);
}
