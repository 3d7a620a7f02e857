"""An event loop whose clock is a number: when nothing is ready, it jumps to the next timer.

In: coroutines and callbacks, each of which belongs to a machine (`at`). Out: the same order of
steps in every run. A machine that is paused runs nothing, and what it would have run waits; one
that is killed ends with all its tasks, and nothing of it leaves any more.
"""

import asyncio
import contextlib
import contextvars
import heapq

MACHINE = contextvars.ContextVar("machine", default=None)


class Machine:
    """A process that can be paused and killed: a replica, a client, Redis."""

    def __init__(self, loop, name):
        self.loop = loop
        self.name = name
        self.paused = False
        self.held = []
        self.tasks = {}
        self.context = contextvars.copy_context()
        self.context.run(MACHINE.set, self)

    def __repr__(self):
        return self.name

    def spawn(self, work):
        """Run a coroutine on this machine."""
        return self.loop.create_task(work, context=self.context)

    def pause(self):
        self.paused = True

    def go_on(self):
        """Run what has waited, in its order."""
        self.paused = False
        held, self.held = self.held, []
        self.loop._ready.extend(held)

    def end_tasks(self):
        """Cancel all tasks until they have ended: redis-py can lose a cancellation."""
        for task in list(self.tasks):
            task.cancel()
        if self.tasks:
            self.loop.call_later(0.001, self.end_tasks, context=self.context)


class Loop(asyncio.BaseEventLoop):
    """`faults` are the errors that no one has caught."""

    def __init__(self):
        super().__init__()
        self.now = 1000.0
        self._timers = 0
        self.faults = []
        self.set_task_factory(self._make_task)
        self.set_exception_handler(lambda _, context: self.faults.append(context))

    def time(self):
        return self.now

    def call_soon(self, callback, *args, context=None):
        handle = asyncio.Handle(callback, args, self, context)
        self._ready.append(handle)
        return handle

    def call_at(self, when, callback, *args, context=None):
        timer = asyncio.TimerHandle(when, callback, args, self, context)
        # A tuple is compared faster than a timer, and timers of one time run in their order.
        self._timers += 1
        heapq.heappush(self._scheduled, (when, self._timers, timer))
        return timer

    def call_later(self, delay, callback, *args, context=None):
        return self.call_at(self.now + delay, callback, *args, context=context)

    def _timer_handle_cancelled(self, handle):
        pass

    def _make_task(self, loop, work, **options):
        task = asyncio.Task(work, loop=loop, **options)
        context = options.get("context") or contextvars.copy_context()
        machine = context.get(MACHINE, None)
        if machine is not None:
            machine.tasks[task] = None
            task.add_done_callback(lambda task: machine.tasks.pop(task, None))
        return task

    def run_in_executor(self, executor, function, *args):
        """Run at once: a thread is no part of what is simulated."""
        future = self.create_future()
        self.call_soon(lambda: future.cancelled() or future.set_result(function(*args)))
        return future

    async def create_connection(self, protocol_factory, host=None, port=None, **options):
        return await self.connect(MACHINE.get(), host, protocol_factory)

    def _run_once(self):
        """Run what is ready, and go on to the time of the next timer, until the loop is stopped."""
        scheduled, ready = self._scheduled, self._ready
        while True:
            if not ready:
                while scheduled and scheduled[0][2]._cancelled:
                    heapq.heappop(scheduled)
                if not scheduled:
                    raise RuntimeError("nothing will ever happen again")
                self.now = max(self.now, scheduled[0][0])
            while scheduled and scheduled[0][0] <= self.now:
                ready.append(heapq.heappop(scheduled)[2])
            for _ in range(len(ready)):
                handle = ready.popleft()
                if handle._cancelled:
                    continue
                machine = handle._context.get(MACHINE)
                if machine is not None and machine.paused:
                    machine.held.append(handle)
                    continue
                handle._run()
            if self._stopping:
                return

    def _process_events(self, events):
        pass

    def _write_to_self(self):
        pass


@contextlib.contextmanager
def simulated_loop():
    """Yield a loop; afterwards nothing of it is left."""
    loop = Loop()
    try:
        yield loop
    finally:
        # More than once: redis-py can lose a cancellation.
        while tasks := asyncio.all_tasks(loop):
            for task in tasks:
                task.cancel()
            loop.run_until_complete(asyncio.wait(tasks, timeout=0.1))
        loop.close()
