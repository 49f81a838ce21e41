"""The goals of a home: start, resume, retry, decide, signal, cancel, fork and delete them."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar, Unpack, overload

from perdure.app.conversations.conversations import Conversations
from perdure.app.goals.arguments import validate
from perdure.app.goals.arguments.run_options import Reopening, RetryOptions, RunOptions
from perdure.app.goals.arguments.validate import OnFailed
from perdure.app.goals.errors import result_of
from perdure.app.goals.handle import GoalHandle
from perdure.app.goals.options import GoalOptions
from perdure.app.goals.runs import GoalRuns
from perdure.app.goals.updates.deletion import GoalDeletion
from perdure.app.goals.updates.forks import GoalForks, fork_request
from perdure.app.goals.updates.posts import CANCEL_WAIT_S, Posts, cancel_payload, clean_up, cleans_up_in
from perdure.app.goals.updates.retries import GoalRetries
from perdure.app.goals.updates.skipped_values import require_fitting_value
from perdure.app.home.system import SystemIds
from perdure.app.wire.goal_view import GoalResult, GoalView
from perdure.app.wire.resources.parameters import ForkPlace
from perdure.app.wire.shown import require_shown
from perdure.app.wire.waits import unawaited_note
from perdure.app.workers.children import HomeChildren
from perdure.errors import Conflict, Invalid
from perdure.kernel.calls.decisions import admit_decision, choose, refuse_while_cancelled
from perdure.kernel.events import Event, Limits, Signal, content_of
from perdure.kernel.journal import ForkChanges
from perdure.kernel.loop import RunResult
from perdure.kernel.ports import InboxRow
from perdure.tools.goal_policy import read_policy

if TYPE_CHECKING:
    from perdure.app.workers.app_worker import AppWorker
    from perdure.minds.flow.flow import Flow

P = ParamSpec("P")
T = TypeVar("T")


class Goals(GoalRuns):
    """The goals of a home. A method that changes a goal needs its whole id; one that only reads accepts a prefix.

    Instead of an id, each accepts `key:KEY` for the goal with a start key. Options come before the arguments:
    `await p.goals.options(key="nightly-2026-11-15").run(nightly, "2026-11-15")`.
    """

    def __repr__(self) -> str:
        return f"<goals of {self._home}>"

    def options(  # noqa: PLR0913 (each is an option of a start)
        self,
        key: str | None = None,
        limits: Limits | None = None,
        tags: Sequence[str] = (),
        on_failed: OnFailed = "raise",
        policy: str | Mapping[str, Any] | None = None,
        *,
        bot: str | None = None,
        model: str | None = None,
        chat: bool = False,
    ) -> GoalOptions:
        """Return options for `run` and `start`, which take only the flow and its arguments.

        `key` is the start key: repeating the call with it refers to the same goal. `tags` are labels for filters. A
        failed goal raises GoalFailed; with `on_failed="retry"`, the caller (not recovery after a crash) retries it once
        before that; with `"return"`, its result is returned. `policy` is the policy for calls of a model: a preset, or
        a mapping of `preset`, `rules` and `yes`. A text is a task for `model`, or that of `bot`, else for the default
        model; with `chat`, it is the first message of a conversation, which waits for the next.

        Raises: Invalid
        """
        given = validate.key(key), validate.limits(limits), validate.tags(tags), validate.on_failed(on_failed)
        return GoalOptions(self, *given, policy=read_policy(policy), bot=bot, model=model, chat=chat)

    @overload
    async def run(self, what: "Flow[P, T]", /, *args: P.args, **kwargs: P.kwargs) -> GoalResult[T]: ...
    @overload
    async def run(self, what: str | list[str] | Path, /) -> GoalResult[Any]: ...
    async def run(self, what: Any, /, *args: Any, **kwargs: Any) -> GoalResult[Any]:
        """Run a flow with its arguments, a text for a model, a command or the plan in a file; return the result.

        Raises: GoalFailed; GoalCancelled; GoalWaiting; Invalid; NotFound when the plan file does not exist.
        """
        return await self.options().run(what, *args, **kwargs)

    @overload
    async def start(self, what: "Flow[P, T]", /, *args: P.args, **kwargs: P.kwargs) -> GoalHandle[T]: ...
    @overload
    async def start(self, what: str | list[str] | Path, /) -> GoalHandle[Any]: ...
    async def start(self, what: Any, /, *args: Any, **kwargs: Any) -> GoalHandle[Any]:
        """Store a goal, run it in the background until the home is closed, and return its handle at once.

        Raises: Invalid; NotFound when the plan file does not exist.
        """
        return await self.options().start(what, *args, **kwargs)

    async def handle(self, goal_id: str | None = None, *, key: str | None = None) -> GoalHandle[Any]:
        """Return a handle on the goal with an id or a start key, in any process.

        Raises: NotFound; Invalid unless exactly one of both is given.
        """
        return GoalHandle(self, (await self._whole(validate.id_or_key(goal_id, key))).goal_id)

    async def resume(self, goal_id: str, *, limits: Limits | None = None, model: str | None = None) -> GoalResult[Any]:
        """Resume a goal and return the result. A finished goal is not run again; its recorded result is returned.

        `limits` raises limits of a goal, for example one that waits because it has reached one. `model` is asked from
        then on, in a goal for a model.

        Raises: GoalFailed, GoalCancelled and GoalWaiting as `run`; NotFound; Conflict when another live worker runs the
        goal, or its flow was changed; Invalid when a limit is not above what was used, or `model` is not a model.
        """
        options = RunOptions(queue=self._queue, model=model)
        return self.result_of(await self.resume_run(goal_id, options, validate.limits(limits)))

    async def retry(
        self,
        goal_id: str,
        *,
        reason: str | None = None,
        limits: Limits | None = None,
        key: str | None = None,
        policy: str | Mapping[str, Any] | None = None,
    ) -> GoalResult[Any]:
        """Retry a failed goal and return the result: failed steps are called again, completed steps are not.

        A failed step that may have had its effect is not repeated: the goal waits for a decision on it. With a key, the
        goal is retried once; a repetition resumes it, or returns its result. `policy` applies to calls of a model from
        then on.

        Raises: GoalFailed, GoalCancelled and GoalWaiting as `run`; NotFound; Conflict when the goal is not failed, its
        flow began other steps because of the failure (the message has the command that forks it instead), another live
        worker runs it, or the key was used for something else; Invalid when a limit is not above what was used.
        """
        judged_by = read_policy(policy)
        return self.result_of(
            await self.reopen(goal_id, reason=reason, limits=limits or Limits(), key=key, policy=judged_by)
        )

    @cached_property
    def children(self) -> HomeChildren:
        """The goals that goals have started."""
        return HomeChildren(self, self._store, self._store, self._runner)

    @cached_property
    def retries(self) -> GoalRetries:
        """The retries of failed goals."""
        return GoalRetries(self, self._store, self._store, self._runner)

    @cached_property
    def _posts(self) -> Posts:
        return Posts(self._store, self._store, self._runner, self._clock, SystemIds(), find=self.find, feed=self.feed)

    @cached_property
    def conversations(self) -> Conversations:
        """The conversations of the home."""
        return Conversations(self, self._store, self._runner, self._posts)

    @cached_property
    def worker(self) -> "AppWorker":
        """The worker that runs goals in the background of this program."""
        from perdure.app.workers.app_worker import AppWorker

        return AppWorker(self, self._clock, queue=self._queue)

    def result_of(self, result: RunResult, on_failed: OnFailed = "raise") -> GoalResult[Any]:
        """Return the result of a run, or raise its exception; see `perdure.app.goals.errors.result_of`."""
        return result_of(result, on_failed, home=self.named_home, now_us=self._clock.now_us())

    async def reopen(self, goal_id: str, options: RunOptions | None = None, **again: Unpack[RetryOptions]) -> RunResult:
        """Reopen a failed goal and run it until it ends, waits or is stopped; see `retry`.

        A goal whose code is in another script is reopened, but not run.
        """
        again["limits"] = validate.limits(again.get("limits"))
        return await self.retries.reopen(goal_id, options or RunOptions(queue=self._queue), Reopening(**again))

    async def decide(
        self,
        goal_id: str,
        decision: str,
        *,
        call_id: str | None = None,
        value: Any = None,
        shown_sha256: str | None = None,
        key: str | None = None,
    ) -> GoalView:
        """Settle an open call, durably; this does not start a run of the goal.

        Without the id of a call, the decision applies to the only call that it fits. With a key, it is recorded once.
        Of two simultaneous decisions on one call, one is accepted. The value for a skipped step of a flow is validated
        against the return annotation of its function if the code is available, else when the flow is resumed. With
        `shown_sha256`, see `perdure.app.wire.shown`, the call must be the one that was shown.

        Raises: NotFound; Invalid; Conflict, which says what was decided before, when it fits nothing that is open,
        another call was shown, or the key has decided something else; Damaged, and nothing is stored.
        """
        key, goal_id = validate.key(key), (await self._whole(goal_id)).goal_id
        given = {"decision": decision, "value": value, "call_id": call_id}
        if (known := await self._posts.decided(goal_id, key, given)) is not None:
            return known
        try:
            state, now_us = await self.state(goal_id), self._clock.now_us()
            chosen = choose(state, decision, call_id, value, now_us=now_us)
            require_shown(state, chosen, shown_sha256)
            await require_fitting_value(self._runner.contexts, state, chosen)
            admit = admit_decision(state, chosen)
            return await self._posts.post(
                goal_id,
                "decision",
                content_of(chosen),
                key=key,
                after=state.head.seq,
                admit=admit,
                created_us=now_us,  # the one moment by which it is in time: for the check above, and for the owner
            )
        except Conflict:
            if (known := await self._posts.decided(goal_id, key, given)) is not None:
                return known  # the same call, made twice at once
            raise

    async def signal(self, goal_id: str, name: str, payload: Any = None, *, key: str | None = None) -> GoalView:
        """Send a signal to a goal, which may wait for it now or later; with a key, once.

        If nothing waits for it now, it is stored, and `note` of the goal describes the present waits of the goal.

        Raises: NotFound; Invalid; Conflict when the goal has finished or is being cancelled, or the key was used for
        another signal; Damaged, and nothing is stored.
        """
        if not isinstance(name, str) or not name.strip():
            raise Invalid(f"The name of a signal must be a string that is not empty, got {name!r}.")
        key, goal = validate.key(key), await self._whole(goal_id)

        def admit(_events: Sequence[Event], pending: Sequence[InboxRow]) -> None:
            refuse_while_cancelled(goal_id, pending)

        content = content_of(Signal(name, payload))
        note = unawaited_note(await self.state(goal.goal_id), name, self._clock.now_us())
        sent = await self._posts.post(goal.goal_id, "signal", content, key=key, after=goal.last_seq, admit=admit)
        return replace(sent, note=note if sent.is_news and not sent.is_final else None)

    async def cancel(  # noqa: PLR0913 (each is an option of the cancel)
        self,
        goal_id: str,
        *,
        reason: str | None = None,
        now: bool = False,
        key: str | None = None,
        wait_s: float = CANCEL_WAIT_S,
        is_cleaned_up_here: bool = True,
        by: str | None = None,
    ) -> GoalView:
        """Cancel a goal and return it; the worker that runs it ends its running steps.

        A flow with `@flow(cleanup=True)` cleans up first: if no worker of a queue does that, it runs in this process if
        its code is available and `is_cleaned_up_here`. A cancel with `now` ends the goal at once; repeating a cancel
        without it does not skip the cleanup.

        If the goal has not ended after `wait_s` seconds, its `note` says why.

        A goal of a live worker is cancelled even if its history is damaged: the worker does not load it again.

        Raises: NotFound; Invalid; Conflict when it has ended, unless the same key has ended it; Damaged, and nothing
        is stored.
        """
        payload = cancel_payload(reason, now=now, by=by)
        goal = await self._whole(goal_id)
        if not (await self.views_of([goal]))[0].is_running:
            await self._require_unchanged(goal)
        posted = await self._posts.post(goal.goal_id, "cancel", payload, key=validate.key(key))
        is_here = is_cleaned_up_here and cleans_up_in(self._queue, posted.summary.queue)
        seen = await self._posts.wait_for_claim(posted) if is_here else posted
        cleaned_up = await clean_up(seen, self.resume_run) if is_here else None
        ended = cleaned_up or await self._posts.wait_for_end(seen, wait_s)
        return replace(ended, is_news=posted.is_news)

    async def wait_for_end(self, goal_id: str, wait_s: float = CANCEL_WAIT_S) -> GoalView:
        """Wait up to `wait_s` seconds for the end of a cancelled goal, and return it."""
        return await self._posts.wait_for_end(await self.get(goal_id), wait_s)

    async def fork(
        self,
        goal_id: str,
        at: int | None = None,
        *,
        take_key: bool = False,
        key: str | None = None,
        policy: str | Mapping[str, Any] | None = None,
        **place: Unpack[ForkPlace],
    ) -> GoalView:
        """Create a goal that shares the events of another up to a point and continues from there. It does not run yet.

        The point is exactly one of: `before`, a step that is called again; `after`, a step whose outcome is kept; `at`,
        the seq of an event; `before_message`, the seq of a message of a person. Calls that are open at the point are
        void and called again, and so are the steps after it. A `once` step that may have happened is called again only
        if it is in `repeat`. A goal that was cancelled and has cleaned up is forked only if the steps of its cleanup
        are in `repeat`. With `take_key`, the fork takes the start key of the goal. With a `key`, the same call creates
        one fork. `policy` is the policy for calls of a model in the fork (default: that of the goal).

        Raises: NotFound; Invalid; Conflict when the goal has no such event or has ended there, the fork would repeat an
        effect or not undo a cleanup, or a key was used; Damaged when the point lies behind a damaged event.
        """
        request, changes = fork_request(at, **place), ForkChanges(read_policy(policy))
        forks = GoalForks(self._store, self._runner, self.views_of)
        return await forks.fork(
            await self._whole(goal_id), request, take_key=take_key, key=validate.key(key), changes=changes
        )

    async def deletable(self, goal_id: str, *, force: bool = False) -> GoalView:
        """Return a goal after checking that it can be deleted; with `force`, also an unfinished damaged goal.

        Raises: NotFound; Conflict when it or a child of it has not finished or has a fork, or its parent has not
        finished.
        """
        goal = await self.get(goal_id)
        await GoalDeletion(self, self._store, force=force).require_deletable(goal)
        return goal

    async def delete(self, goal_id: str, *, force: bool = False) -> str:
        """Delete the history of a finished goal without forks, and of its children; return its id.

        With `force`, also an unfinished goal whose history is damaged, because it can be neither resumed nor cancelled.

        Raises: as `deletable`.
        """
        goal = await self.get(goal_id)
        await GoalDeletion(self, self._store, force=force).delete(goal)
        return goal.id

    async def close(self) -> None:
        """Interrupt and release the goals in the background, and stop the worker; later calls raise Unavailable."""
        try:
            if "worker" in vars(self):
                await self.worker.close()
        finally:
            self._is_closed = True
            await self._runner.close()
            await self.feed.close()
