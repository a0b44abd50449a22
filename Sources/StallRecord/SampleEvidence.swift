/// What was read of a thread and its surroundings beside its stack, raw: what it means is found out when the report is made.
package struct SampleEvidence: Hashable, Sendable {
  /// The six arguments of the system call that the thread was blocked in; empty where it was in none.
  package var arguments: [UInt64] = []
  /// The words from the one on that the thread waited for a change of (futex(2)); empty where it did not.
  package var words: [UInt32] = []
  /// The kernel's function that the thread slept in (`/proc/…/wchan`); empty where that is not known, or says no more than the call.
  package var kernelFunction = ""
  /// How often the thread had got a processor by then; `nil` if unknown.
  package var turns: UInt64?
  /// What the kernel had counted for the thread by then; `nil` where it was not asked: that takes its time, and is not done each time.
  package var counters: ThreadCounters?
  /// The same for the process and the machine.
  package var surroundings: SurroundingCounters?

  /// Nothing that is known.
  package init() {}

  /// Whether nothing is known.
  package var isEmpty: Bool { self == SampleEvidence() }
}

/// What the kernel had counted for a thread since it began.
package struct ThreadCounters: Hashable, Sendable {
  /// How often it gave up the processor, because it had to wait, and how often it was taken from it.
  package var voluntarySwitches: UInt64 = 0
  package var involuntarySwitches: UInt64 = 0
  /// Page faults that needed no reading, and those that did.
  package var minorFaults: UInt64 = 0
  package var majorFaults: UInt64 = 0
  /// Its processor time in its own code, and in the kernel, in clock ticks of a hundredth of a second.
  package var userTicks: UInt64 = 0
  package var systemTicks: UInt64 = 0
  /// What it read and wrote by system calls, in bytes.
  package var readBytes: UInt64 = 0
  package var writtenBytes: UInt64 = 0
  /// What of that the disk was needed for, in bytes.
  package var diskReadBytes: UInt64 = 0
  package var diskWrittenBytes: UInt64 = 0

  /// Nothing counted.
  package init() {}

  /// Every count, in the order of files.
  static let all: [WritableKeyPath<ThreadCounters, UInt64> & Sendable] = [
    \.voluntarySwitches, \.involuntarySwitches, \.minorFaults, \.majorFaults, \.userTicks, \.systemTicks, \.readBytes,
    \.writtenBytes, \.diskReadBytes, \.diskWrittenBytes,
  ]

  /// What was counted from `earlier` to this; zero where that is less.
  package func since(_ earlier: ThreadCounters) -> ThreadCounters {
    var difference = ThreadCounters()
    for count in Self.all {
      difference[keyPath: count] = self[keyPath: count] - min(self[keyPath: count], earlier[keyPath: count])
    }
    return difference
  }
}

/// What the kernel had counted for the process's control group, or the machine, since that began.
package struct SurroundingCounters: Hashable, Sendable {
  /// How long the control group was kept from running, because its quota was used up (`cpu.stat`); `nil` if unknown.
  package var throttled: Duration?
  /// How long somebody in the control group, or on the machine, waited for memory, and for a disk (PSI); `nil` if unknown.
  package var memoryStalled: Duration?
  package var diskStalled: Duration?
  /// How many threads of the machine wanted a processor then, and how many processors there are; `nil` if unknown.
  package var runnableThreads: UInt32?
  package var processors: UInt32?

  /// Nothing that is known.
  package init() {}
}
