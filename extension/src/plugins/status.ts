import {
  JupyterFrontEnd,
  JupyterFrontEndPlugin
} from '@jupyterlab/application';
import { IStatusBar } from '@jupyterlab/statusbar';
import { ReactWidget } from '@jupyterlab/ui-components';
import * as React from 'react';
import { IJtrainService } from '../service';
import { PANEL_ID } from '../view/panel';
import { StatusItem } from '../view/statusitem';

/** An item in the status bar: how many runs there are at work, and how busy the GPUs are. */
export const statusPlugin: JupyterFrontEndPlugin<void> = {
  id: 'jtrain:status',
  description: 'Training runs in the status bar.',
  autoStart: true,
  requires: [IJtrainService],
  optional: [IStatusBar],
  activate: (
    app: JupyterFrontEnd,
    jtrain: IJtrainService,
    bar: IStatusBar | null
  ) => {
    const open = () => app.shell.activateById(PANEL_ID);
    const item = ReactWidget.create(
      React.createElement(StatusItem, { jtrain, onOpen: open })
    );
    item.addClass('jp-JtrainStatus');
    bar?.registerStatusItem('jtrain:status', {
      item,
      align: 'left',
      rank: 90
    });
  }
};
