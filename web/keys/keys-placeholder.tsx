import { UsageFrame } from "../usage/usage-frame.tsx";
import { KeysLoading } from "./keys-loading.tsx";
import { TitleRow } from "./title-row.tsx";

/** The page of a team's keys before the team is known. Nothing on it works yet. */
export function KeysPlaceholder() {
  return (
    <>
      <TitleRow teamName={undefined} full={null} onCreate={() => {}} />
      <UsageFrame />
      <KeysLoading atOnce={false} />
    </>
  );
}
