import { ActivityPage } from "./activity/activity-page.tsx";
import { AccountMenuContent } from "./frame/account-menu-content.tsx";
import { KeyMenu } from "./keys/dialogs/key-menu.tsx";
import { KeysDialogs } from "./keys/dialogs/keys-dialogs.tsx";
import { LiveKeys } from "./keys/live/live-keys.tsx";
import { KeySearch } from "./keys/search/key-search.tsx";
import { NoMatch } from "./keys/search/no-match.tsx";
import {
  NoTeamPage,
  PreviewOffPage,
  SessionEndedNote,
  TeamNotFoundPage,
  UnknownPage,
} from "./session/absent-pages.tsx";
import { SignInLinkPage } from "./sign-in/sign-in-link-page.tsx";
import { SignInPage } from "./sign-in/sign-in-page.tsx";
import styles from "./styles/parts.css?inline";
import { AppSnippets } from "./try-it/app-snippets.tsx";
import { UsageHistory } from "./usage/history/usage-history.tsx";
import { UsageLines } from "./usage/lines/usage-lines.tsx";

// In this file, because a file of its own could arrive late, or not at all.
const sheet = new CSSStyleSheet();
sheet.replaceSync(styles);
document.adoptedStyleSheets.push(sheet);

/**
 * The components that the first view of a team's keys doesn't need. The build puts them into one
 * file, so that either all of them are loaded or none.
 */
export const parts = {
  ...{ AccountMenuContent, ActivityPage, AppSnippets, KeyMenu, KeysDialogs, LiveKeys },
  ...{ KeySearch, NoMatch, UsageHistory, UsageLines },
  ...{ NoTeamPage, PreviewOffPage, TeamNotFoundPage, UnknownPage },
  ...{ SessionEndedNote, SignInLinkPage, SignInPage },
};
