import { commandsPlugin } from './plugins/commands';
import { notificationsPlugin } from './plugins/notifications';
import { panelPlugin } from './plugins/panel';
import { statusPlugin } from './plugins/status';

export default [panelPlugin, commandsPlugin, statusPlugin, notificationsPlugin];
