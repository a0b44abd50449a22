/// Raw data of a thread and its surroundings in addition to the stack. It is interpreted when the report is made.
package struct SampleEvidence: Hashable, Sendable {
  package var arguments: [UInt64] = []
  /// The words at the address of a futex wait (futex(2)); empty if there was none.
  package var words: [UInt32] = []
  /// The kernel function in which the thread slept (`/proc/…/wchan`); empty if unknown or implied by the system call.
  package var kernelFunction = ""
  /// How often the thread had been scheduled; `nil` if unknown.
  package var timeslices: UInt64?
  /// The kernel's counters of the thread. `nil` if they were not read, because reading is slow and not done for every
  /// sample.
  package var counters: ThreadCounters?
  /// The kernel's counters of the process and the machine; `nil` if they were not read.
  package var surroundings: SurroundingCounters?

  package init() {}

  package var isEmpty: Bool { self == SampleEvidence() }
}

package struct ThreadCounters: Hashable, Sendable {
  /// How often the thread gave up the CPU to wait, and how often it was preempted.
  package var voluntarySwitches: UInt64 = 0
  package var involuntarySwitches: UInt64 = 0
  package var minorFaults: UInt64 = 0
  package var majorFaults: UInt64 = 0
  /// The CPU time in user mode and in the kernel, in clock ticks of 10 ms.
  package var userTicks: UInt64 = 0
  package var systemTicks: UInt64 = 0
  package var readBytes: UInt64 = 0
  package var writtenBytes: UInt64 = 0
  package var diskReadBytes: UInt64 = 0
  package var diskWrittenBytes: UInt64 = 0

  package init() {}

  static let all: [WritableKeyPath<ThreadCounters, UInt64> & Sendable] = [
    \.voluntarySwitches, \.involuntarySwitches, \.minorFaults, \.majorFaults, \.userTicks, \.systemTicks, \.readBytes,
    \.writtenBytes, \.diskReadBytes, \.diskWrittenBytes,
  ]

  package func since(_ earlier: ThreadCounters) -> ThreadCounters {
    var difference = ThreadCounters()
    for count in Self.all {
      difference[keyPath: count] = self[keyPath: count] - min(self[keyPath: count], earlier[keyPath: count])
    }
    return difference
  }
}

package struct SurroundingCounters: Hashable, Sendable {
  /// The time for which the control group was throttled by its quota (`cpu.stat`); `nil` if unknown.
  package var throttled: Duration?
  /// The times for which any thread of the control group, or of the machine, waited for memory and for a disk (PSI);
  /// `nil` if unknown.
  package var memoryStalled: Duration?
  package var diskStalled: Duration?
  /// The bytes of files that the control group read again after the kernel had reclaimed them (`memory.stat`,
  /// `workingset_refault_file`), and the number of allocations that met the group's memory limit (`memory.events`,
  /// `memory.failcnt`); `nil` if unknown.
  package var refaultedBytes: UInt64?
  package var memoryLimitHits: UInt64?
  /// The current number of runnable threads of the machine, and the number of CPUs; `nil` if unknown.
  package var runnableThreads: UInt32?
  package var cpuCount: UInt32?

  package init() {}
}
