"""Goroutines of gort in gdb, of a process or of a core file.

    info goroutines [-summary] [WORDS]   all goroutines, or those whose state, name or function has the words
    goroutine N COMMAND                  runs a gdb command in goroutine N: bt, info locals, frame 3, ...
    goroutine all COMMAND                runs it in every goroutine
    goroutine N                          stays in goroutine N until the program goes on, or `goroutine off`
    $goroutine()                         the id of the goroutine that the thread runs, or 0

gdb loads this script with the program if it trusts the program's file:
`add-auto-load-safe-path FILE` in ~/.config/gdb/gdbinit, or on the command line `-iex`. Or load it by
`source`.

How it works. The symbol `gort_debugger` is a table that says where everything is (`src/diag/gdb/mod.rs`), so
the program needs no debug information. A goroutine that runs is shown by its thread. For any other, an
unwinder tells gdb that frame 0 of the selected thread was called from where the goroutine stopped. Frame 0,
which is the thread's, is then hidden, so that backtraces begin at frame 1. Nothing is written to the process:
to change a thread's registers for a while, as other scripts do, makes an interrupted system call fail, and a
core file does not allow it.
"""

import re
import struct
import time

import gdb
import gdb.unwinder

VERSION = 1

# An M that is this near (bytes) to where its g0 stopped is on g0, and not in its goroutine.
NEAR_G0 = 32 << 10
# Frames that are searched for the function of a goroutine, and bytes of the stack that are compared.
DEEPEST = 64
WINDOW = 4096


class Memory:
    """Reads the memory of the selected inferior."""

    def __init__(self):
        self.inferior = gdb.selected_inferior()

    def bytes(self, address, length):
        return self.inferior.read_memory(address, length).tobytes()

    def word(self, address):
        return struct.unpack("<Q", self.bytes(address, 8))[0]

    def words(self, address, count):
        return struct.unpack("<%dQ" % count, self.bytes(address, 8 * count))

    def text(self, address, length):
        # A longer one is not a name, but garbage.
        return self.bytes(address, min(length, 4096)).decode("utf-8", "replace") if length else ""


def read_table(memory):
    """The table `gort_debugger` as a dictionary."""
    try:
        shown = gdb.execute("with language c -- output/x (unsigned long)&gort_debugger", to_string=True)
    except gdb.error:
        raise gdb.GdbError("This program does not use gort, or its symbols were stripped.")
    # gdb may add that the language is not the frame's.
    table, at = {}, int(re.search("0x[0-9a-f]+", shown).group(), 16)
    while True:
        name, length, value = memory.words(at, 3)
        if not name:
            break
        table[memory.text(name, length)] = value
        at += 24
    if table.get("version") != VERSION:
        raise gdb.GdbError("This script is not the one of the program's version of gort.")
    return table


def read_texts(memory, at, count):
    words = memory.words(at, 2 * count)
    return [memory.text(words[2 * i], words[2 * i + 1]) for i in range(count)]


class Slab:
    """A row of slots (`src/stack/slab.rs`)."""

    def __init__(self, memory, table, at):
        def field(name):
            return memory.word(at + table[name])

        self.start = field("slab.start")
        self.span = field("slab.span")
        self.used = min(field("slab.used"), field("slab.slots"))
        self.older = field("slab.older")
        self.header_bytes = table["header bytes"]
        layout = field("slab.layout")
        self.above = memory.word(layout + table["layout.above"])
        self.below = memory.word(layout + table["layout.below"])
        self.align = memory.word(layout + table["layout.align"])

    def slot(self, index):
        return self.start + index * self.span

    def header(self, index):
        block = (self.slot(index) + self.span - self.above) & -self.align
        return (block - self.below - self.header_bytes) & -(self.header_bytes // 2)

    def index_of(self, address):
        """The number of the slot that has this address, or None."""
        inside = self.start <= address < self.slot(self.used)
        return (address - self.start) // self.span if inside else None


class Goroutine:
    """A goroutine, as its header describes it (`src/sched/types/g.rs`)."""

    def __init__(self, runtime, at, header):
        def field(name, code="Q"):
            return struct.unpack_from("<" + code, header, runtime.table[name])[0]

        self.runtime = runtime
        self.at = at
        self.id = field("g.id")
        self.status = runtime.status_name(field("g.status", "B") & 0x7F)
        self.m = field("g.m")
        self.context = field("g.context")
        self.wait_reason = field("g.wait_reason", "B") & ~runtime.table["wait flags"] & 0xFF
        self.parked_at = field("g.parked_at")
        self.bound = field("g.lock_count", "I") != 0
        self.bubble = field("g.bubble", "B")
        self.parent = field("g.parent")
        self.site = field("g.site")
        self.info = field("g.info")
        # The slot's start; its lowest bits are the size.
        self.slot = field("g.place") & ~63

    def name(self):
        """Its name, or None."""
        if not self.info:
            return None
        memory = self.runtime.memory
        try:
            # An Option<Arc<str>>: two counts are before the text.
            start, length = memory.words(self.info + self.runtime.table["info.name"], 2)
            return memory.text(start + 16, length) if start else None
        except gdb.MemoryError:
            return None

    def state(self):
        """What it does, and for how long it has been waiting."""
        waits = self.status == "waiting"
        parts = [self.runtime.wait_reason_name(self.wait_reason) if waits else self.status]
        if waits and self.parked_at:
            parts += self.runtime.clock.since(self.parked_at)
        if self.bound:
            parts.append("locked to thread")
        if self.bubble:
            parts.append("in bubble %d" % self.bubble)
        return ", ".join(parts)

    def title(self):
        name = self.name()
        # A control character could not be told from the debugger's own output.
        printable = "".join(c if c.isprintable() else "?" for c in name or "")
        return "[%s]%s" % (self.state(), " {%s}" % printable if name is not None else "")

    def origin(self):
        site = self.runtime.site(self.site)
        by = "goroutine %d" % self.parent if self.parent else "a thread outside of gort"
        return "created by %s%s" % (by, " at " + site if site else "")

    def thread(self):
        """The thread that it is on, or None."""
        return self.runtime.threads().get(self.at)

    def registers(self):
        """The registers with which gdb finds its frames. It is not on a thread."""
        table = self.runtime.table
        pc = self.runtime.memory.word(self.context)
        rbx = self.runtime.memory.word(self.context + table["context.rbx"])
        rbp = self.runtime.memory.word(self.context + table["context.rbp"])
        rsp = self.context + table["context bytes"]
        if pc == table["first frame"]:
            # It has not run yet.
            return {"rip": table["first frame end"], "rsp": rsp, "rbp": 0}
        if pc == table["resume"]:
            # A signal stopped it. The unwind information of this address finds what the kernel saved by rbx.
            return {"rip": table["resume last"], "rsp": rsp, "rbx": rbx}
        return {"rip": pc, "rsp": rsp, "rbx": rbx, "rbp": rbp}


class Clock:
    """For how long a goroutine has been waiting. In a core file, up to the last tick of gort's own clock."""

    def __init__(self, runtime, goroutines):
        connection = getattr(gdb.selected_inferior(), "connection", None)
        if connection is not None and connection.type == "native":
            self.now = int(time.clock_gettime(time.CLOCK_MONOTONIC) * 1e9)
        else:
            tick = runtime.memory.word(runtime.table["coarse clock"])
            self.now = max([tick] + [g.parked_at for g in goroutines])

    def since(self, then):
        seconds = max(self.now - then, 0) // 1000000000
        if seconds < 1:
            return []
        return ["%d s" % seconds if seconds < 120 else "%d minutes" % (seconds // 60)]


class Runtime:
    """What gort's data say about the stopped program. It is read once for each stop."""

    cached = None

    @staticmethod
    def now():
        if gdb.selected_thread() is None:
            raise gdb.GdbError("There is no process and no core file.")
        inferior = gdb.selected_inferior()
        key = (inferior.num, inferior.pid)
        if Runtime.cached is None or Runtime.cached.key != key:
            Runtime.cached = Runtime(key)
        return Runtime.cached

    @staticmethod
    def forget(_event=None):
        Runtime.cached = None

    def __init__(self, key):
        self.key = key
        self.memory = Memory()
        self.table = read_table(self.memory)
        table = self.table
        self.statuses = read_texts(self.memory, table["status names"], table["status count"])
        self.wait_reasons = read_texts(self.memory, table["wait reason names"], table["wait reason count"])
        self.slabs = []
        at = self.memory.word(table["slab newest"])
        while at:
            self.slabs.append(Slab(self.memory, table, at))
            at = self.slabs[-1].older
        self.site_offsets = self.find_site_offsets()
        self.sites = {}
        self.found = None
        self.absent = 0
        self.on_threads = None
        self.shapes = {}

    def status_name(self, number):
        return self.statuses[number] if number < len(self.statuses) else "status %d" % number

    def wait_reason_name(self, number):
        known = number < len(self.wait_reasons)
        return self.wait_reasons[number] if known else "wait reason %d" % number

    def goroutine_at(self, slab, index):
        """The goroutine of a slot. None: it has ended, or the slot is being made, or the core lacks it."""
        at = slab.header(index)
        try:
            header = self.memory.bytes(at, slab.header_bytes)
        except gdb.MemoryError:
            self.absent += 1
            return None
        g = Goroutine(self, at, header)
        if g.slot != slab.slot(index):
            self.absent += 1
            return None
        return g if g.status != "dead" and g.id else None

    def goroutines(self):
        """All goroutines, by id."""
        if self.found is None:
            self.absent = 0
            every = (self.goroutine_at(slab, i) for slab in self.slabs for i in range(slab.used))
            self.found = {g.id: g for g in every if g is not None}
            self.clock = Clock(self, self.found.values())
        return [self.found[number] for number in sorted(self.found)]

    def goroutine(self, number):
        self.goroutines()
        if number not in self.found:
            hint = "`info goroutines` lists those that there are."
            raise gdb.GdbError("There is no goroutine %d. %s" % (number, hint) + self.warning())
        return self.found[number]

    def warning(self):
        """What to say if headers could not be read: a slot or two are being made, but not more."""
        if self.absent < 16 and self.absent * 2 <= sum(slab.used for slab in self.slabs):
            return ""
        return (
            "\nThe memory of %d goroutines, alive or ended, is not in the core file. gdb's own `gcore` leaves"
            "\nout stacks with the guards of Linux 6.13 and newer: run the program with"
            " GORT_GUARD=mprotect, or"
            "\nlet the kernel write the core file." % self.absent
        )

    def goroutine_with(self, address):
        """The goroutine whose slot has this address, or None."""
        for slab in self.slabs:
            index = slab.index_of(address)
            if index is not None:
                return self.goroutine_at(slab, index)
        return None

    def threads(self):
        """For each goroutine that is on a thread, by the address of its header: that thread."""
        if self.on_threads is None:
            self.on_threads, elsewhere = {}, {}
            for thread, rsp in stack_pointers():
                g = self.goroutine_with(rsp)
                if g is not None:
                    self.on_threads[g.at] = thread
                else:
                    elsewhere[thread.ptid[1]] = (thread, rsp)
            for g in self.goroutines():
                if g.at not in self.on_threads and g.m and g.status in ("running", "syscall", "preempted"):
                    thread = self.thread_of_m(g, elsewhere)
                    if thread is not None:
                        self.on_threads[g.at] = thread
        return self.on_threads

    def thread_of_m(self, g, elsewhere):
        """The thread of a goroutine that is not on its own stack: a signal handler runs, or code that has
        another stack."""
        if self.memory.word(g.m + self.table["m.current"]) != g.at:
            return None
        tid = struct.unpack("<I", self.memory.bytes(g.m + self.table["m.tid"], 4))[0]
        thread, rsp = elsewhere.get(tid, (None, 0))
        # If the M is about to switch to the goroutine, or has just left it, its context is as it was saved.
        on_g0 = abs(self.memory.word(g.m + self.table["m.g0"]) - rsp) < NEAR_G0
        return None if on_g0 else thread

    def m_name(self, g):
        return "gort-m%d" % struct.unpack("<I", self.memory.bytes(g.m + self.table["m.id"], 4))[0]

    def find_site_offsets(self):
        """Where a `Location` has its parts, as the sample in the table shows it."""
        table = self.table
        sample = self.memory.bytes(table["site"], 24)
        words = struct.unpack("<3Q", sample)
        if table["site file"] not in words:
            return None
        text = 8 * words.index(table["site file"])
        length = table["site file length"]
        if text == 16 or words[text // 8 + 1] not in (length, length + 1):
            return None
        surplus = words[text // 8 + 1] - length
        rest = [at for at in range(0, 24, 4) if not text <= at < text + 16]
        small = {struct.unpack_from("<I", sample, at)[0]: at for at in rest}
        line, column = small.get(table["site line"]), small.get(table["site column"])
        return None if line is None or column is None else (text, surplus, line, column)

    def site(self, at):
        """A `Location` as text, or None."""
        if not at or self.site_offsets is None:
            return None
        if at not in self.sites:
            text, surplus, line, column = self.site_offsets
            try:
                data = self.memory.bytes(at, 24)
                start, length = struct.unpack_from("<2Q", data, text)
                numbers = [struct.unpack_from("<I", data, offset)[0] for offset in (line, column)]
                self.sites[at] = "%s:%d:%d" % (self.memory.text(start, length - surplus), *numbers)
            except gdb.MemoryError:
                self.sites[at] = None
        return self.sites[at]

    def function(self, g):
        """Where its own code is: function and place, as text."""
        if g.thread() is not None:
            with Selected(g):
                return function_from(gdb.newest_frame())[0]
        try:
            registers = g.registers()
        except gdb.MemoryError:
            return "(its stack is not in the core file)"
        if registers["rip"] == self.table["first frame end"]:
            return "(has not run yet)"
        if "rbp" in registers:
            return self.function_by_shape(g, registers)
        with Selected(g):
            return function_from(gdb.selected_frame())[0]

    def function_by_shape(self, g, registers):
        """Unwinding takes some 0.1 ms. Most goroutines stopped where another one did: if the return addresses
        that were found on its stack are at the same places of this stack, its frames are the same."""
        rsp = registers["rsp"]
        try:
            stack = self.memory.bytes(rsp, min(WINDOW, max(g.at - rsp, 0)))
        except gdb.MemoryError:
            stack = b""
        known = self.shapes.setdefault(registers["rip"], [])
        for shape, text in known:
            if all(stack[at : at + 8] == address for at, address in shape):
                return text
        with Selected(g):
            text, returns = function_from(gdb.selected_frame())
        shape = [(at - rsp, struct.pack("<Q", address)) for at, address in returns]
        if all(0 <= at <= len(stack) - 8 and stack[at : at + 8] == address for at, address in shape):
            known.insert(0, (shape, text))
            del known[32:]
        return text


def stack_pointers():
    """All stopped threads with their stack pointers."""
    before = gdb.selected_thread()
    frame = selected_level()
    found = []
    try:
        for thread in gdb.selected_inferior().threads():
            if thread.is_valid() and not thread.is_running():
                thread.switch()
                found.append((thread, register(gdb.newest_frame(), "rsp")))
    finally:
        if before is not None:
            before.switch()
            select_level(frame)
    return found


def register(frame, name):
    return int(frame.read_register(name)) & 0xFFFFFFFFFFFFFFFF


def selected_level():
    """The number of the selected frame."""
    try:
        frame, level = gdb.selected_frame(), 0
    except gdb.error:
        return 0
    while frame.newer() is not None:
        frame, level = frame.newer(), level + 1
    return level


def select_level(level):
    frame = gdb.newest_frame()
    for _ in range(level):
        if frame.older() is None:
            break
        frame = frame.older()
    frame.select()


# Names of functions that are not a program's own.
NOT_OWN = re.compile(r"^[<&*(\[ ]*(dyn )?(gort|core|std|alloc|crossbeam_utils|lock_api|backtrace)::")
HASH = re.compile(r"::h[0-9a-f]{16}$")


def function_from(frame):
    """The first function of the program's own code from this frame on, and the return addresses up to it,
    each with the address where it is."""
    returns, first = [], None
    for _ in range(DEEPEST):
        name = HASH.sub("", frame.name() or "")
        if first is None and name:
            first = describe(frame, name)
        if "::" in name and not NOT_OWN.match(name):
            return describe(frame, name), returns
        older = frame.older()
        if older is None:
            break
        if frame.type() == gdb.NORMAL_FRAME:
            returns.append((register(older, "rsp") - 8, older.pc()))
        frame = older
    return first or "??", returns


def describe(frame, name):
    place = frame.find_sal()
    return "%s at %s:%d" % (name, place.symtab.filename, place.line) if place.symtab else name


class View:
    """The frames of a goroutine that is on no thread, in place of those of a thread."""

    def __init__(self, goroutine):
        self.goroutine = goroutine
        self.registers = goroutine.registers()
        self.ptid = gdb.selected_thread().ptid
        frame = gdb.newest_frame()
        self.rsp, self.pc = register(frame, "rsp"), frame.pc()
        # The thread's own frames that are hidden: one, and the functions that are inlined there.
        self.hidden = 1
        while frame is not None and frame.type() == gdb.INLINE_FRAME:
            frame = frame.older()
            self.hidden += 1


class FrameId:
    def __init__(self, sp, pc):
        self.sp, self.pc = gdb.Value(sp), gdb.Value(pc)


class GoroutineUnwinder(gdb.unwinder.Unwinder):
    """Says that the newest frame of the thread was called from where the goroutine stopped."""

    def __init__(self):
        super().__init__("gort-goroutine")
        self.view = None

    def __call__(self, pending):
        view = self.view
        if view is None or gdb.selected_thread() is None or gdb.selected_thread().ptid != view.ptid:
            return None
        if register(pending, "rsp") != view.rsp or register(pending, "rip") != view.pc:
            return None
        # Frames lie below their callers: gdb checks that.
        info = pending.create_unwind_info(FrameId(view.registers["rsp"] - 16, view.pc))
        for name, value in view.registers.items():
            info.add_saved_register(name, gdb.Value(value))
        return info

    def show(self, view):
        """Shows this view from now on; None: the thread."""
        self.view = view
        if view is None:
            gdb.frame_filters.pop(HIDER.name, None)
        else:
            gdb.frame_filters[HIDER.name] = HIDER
        gdb.invalidate_cached_frames()

    def forget(self, _event=None):
        self.view = None
        gdb.frame_filters.pop(HIDER.name, None)


class Hider:
    """A frame filter: leaves out the thread's own frames, and says if a backtrace ends too early."""

    name, priority, enabled = "gort-goroutine", 10000, True

    def filter(self, frames):
        view = UNWINDER.view
        thread = gdb.selected_thread()
        hidden = view.hidden if view is not None and thread is not None and thread.ptid == view.ptid else 0
        return self.without(frames, hidden)

    @staticmethod
    def without(frames, hidden):
        last = None
        for number, frame in enumerate(frames):
            last = frame.inferior_frame()
            if number >= hidden:
                yield frame
        reason = last.unwind_stop_reason() if last is not None else 0
        if reason > gdb.FRAME_UNWIND_OUTERMOST:
            print("Backtrace stopped: " + gdb.frame_stop_reason_string(reason))


UNWINDER = GoroutineUnwinder()
HIDER = Hider()


class Selected:
    """Makes gdb look at a goroutine: its thread, or its view on the selected thread."""

    def __init__(self, goroutine):
        self.goroutine = goroutine

    def __enter__(self):
        self.before = (gdb.selected_thread(), UNWINDER.view, selected_level())
        try:
            select(self.goroutine)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_error):
        thread, view, level = self.before
        if thread is not None and thread.is_valid():
            thread.switch()
            if not thread.is_running():
                if UNWINDER.view is not view:
                    # The program may have gone on meanwhile, which ends a view.
                    UNWINDER.show(view if Runtime.cached is self.goroutine.runtime else None)
                select_level(level)


def select(goroutine):
    thread = goroutine.thread()
    if UNWINDER.view is not None:
        UNWINDER.show(None)
    if thread is not None:
        thread.switch()
        gdb.newest_frame().select()
        return
    try:
        view = View(goroutine)
    except gdb.MemoryError:
        raise gdb.GdbError("The stack of goroutine %d is not in the core file." % goroutine.id)
    UNWINDER.show(view)
    select_level(view.hidden)


def current_goroutine(runtime):
    """The goroutine that gdb shows now, or None."""
    if UNWINDER.view is not None and UNWINDER.view.ptid == gdb.selected_thread().ptid:
        return UNWINDER.view.goroutine
    ptid = gdb.selected_thread().ptid
    at = next((at for at, thread in runtime.threads().items() if thread.ptid == ptid), None)
    return next((g for g in runtime.goroutines() if g.at == at), None)


class InfoGoroutines(gdb.Command):
    """Lists the goroutines: id, state, thread, name, function.
Usage: info goroutines [-summary] [WORDS]
With WORDS, only those whose state, name or function contains them. With -summary, how many are in the same
state and function. A state is what the goroutine does or waits for, and since when. The function is the
innermost one of the program's own code."""

    def __init__(self):
        super().__init__("info goroutines", gdb.COMMAND_STATUS)

    def invoke(self, argument, _from_tty):
        words = argument.strip()
        summary = words.split(" ")[0] in ("-s", "-summary")
        if summary:
            words = words.partition(" ")[2].strip()
        runtime = Runtime.now()
        shown = runtime.goroutines()
        if summary:
            self.summarize(runtime, shown, words)
        else:
            self.list(runtime, shown, words)
        if runtime.warning():
            print(runtime.warning().strip())

    @staticmethod
    def list(runtime, goroutines, words):
        current = current_goroutine(runtime)
        count = 0
        for g in goroutines:
            thread = g.thread()
            on = " on thread %d (%s)" % (thread.num, runtime.m_name(g)) if thread is not None else ""
            line = "%s%s  %s" % (g.title(), on, runtime.function(g))
            if words in line:
                print("%s %-5d %s" % ("*" if g is current else " ", g.id, line))
                count += 1
        if not count:
            print("No goroutines." if not words else "No goroutine with `%s`." % words)

    @staticmethod
    def summarize(runtime, goroutines, words):
        groups = {}
        for g in goroutines:
            waits = g.status == "waiting"
            state = runtime.wait_reason_name(g.wait_reason) if waits else g.status
            line = "[%s]  %s" % (state, runtime.function(g))
            if words in line:
                groups.setdefault(line, []).append(g.id)
        for line, ids in sorted(groups.items(), key=lambda group: -len(group[1])):
            print("%7d  %s, for example goroutine %d" % (len(ids), line, ids[0]))
        print("%7d  goroutines" % sum(len(ids) for ids in groups.values()))


class GoroutineCommand(gdb.Command):
    """Runs a gdb command in a goroutine, or in all: bt, info locals, frame 3, ...
Usage: goroutine N COMMAND
       goroutine all COMMAND
       goroutine N      stays in goroutine N, until the program goes on
       goroutine off    returns to the thread
The frames of a goroutine that is on no thread begin with number 1."""

    def __init__(self):
        super().__init__("goroutine", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, _, command = argument.strip().partition(" ")
        command = command.strip()
        if which == "off" and not command:
            UNWINDER.show(None)
        elif which == "all" and command:
            self.run_in_all(command, from_tty)
        elif which.isdigit():
            goroutine = Runtime.now().goroutine(int(which))
            if command:
                with Selected(goroutine):
                    gdb.execute(command, from_tty)
            else:
                select(goroutine)
                print("goroutine %d %s, %s" % (goroutine.id, goroutine.title(), goroutine.origin()))
                gdb.execute("frame")
        else:
            raise gdb.GdbError("Usage: goroutine N|all COMMAND. `info goroutines` lists the numbers.")

    @staticmethod
    def run_in_all(command, from_tty):
        for g in Runtime.now().goroutines():
            print("\ngoroutine %d %s, %s:" % (g.id, g.title(), g.origin()))
            try:
                with Selected(g):
                    gdb.execute(command, from_tty)
            except (gdb.error, gdb.GdbError) as error:
                print(error)
        if Runtime.now().warning():
            print(Runtime.now().warning().strip())


class GoroutineFunction(gdb.Function):
    """The id of the goroutine that the selected thread runs, or 0."""

    def __init__(self):
        super().__init__("goroutine")

    def invoke(self):
        g = Runtime.now().goroutine_with(register(gdb.newest_frame(), "rsp"))
        return g.id if g is not None else 0


def program_goes_on(event):
    UNWINDER.forget(event)
    Runtime.forget(event)


InfoGoroutines()
GoroutineCommand()
GoroutineFunction()
gdb.unwinder.register_unwinder(None, UNWINDER, replace=True)
for registry in (gdb.events.cont, gdb.events.exited, gdb.events.new_objfile, gdb.events.clear_objfiles):
    registry.connect(program_goes_on)
gdb.events.memory_changed.connect(Runtime.forget)
# gort stops goroutines by this signal.
gdb.execute("handle SIGURG nostop noprint pass", to_string=True)
