/// Raw data of a sample besides the stack: the thread, its process and the machine. The report interprets the data.
package struct SampleEvidence: Hashable, Sendable {
  package var arguments: [UInt64] = []
  /// The words at the address of a futex wait (futex(2)); empty without a wait.
  package var words: [UInt32] = []
  /// The kernel function in which the thread slept (`/proc/…/wchan`); empty if unknown or implied by the system call.
  package var kernelFunction = ""
  /// How often the thread had been scheduled; `nil` if unknown.
  package var timeslices: UInt64?
  /// The kernel's counters of the thread; `nil` in most samples, because reading is slow.
  package var counters: ThreadCounters?
  /// The kernel's counters of the process and the machine; `nil` if they were not read.
  package var surroundings: SurroundingCounters?

  package init() {}

  package var isEmpty: Bool { self == SampleEvidence() }
}

package struct ThreadCounters: Hashable, Sendable {
  /// How often the thread gave up the CPU to wait.
  package var voluntarySwitches: UInt64 = 0
  /// How often the thread was preempted.
  package var involuntarySwitches: UInt64 = 0
  package var minorFaults: UInt64 = 0
  package var majorFaults: UInt64 = 0
  /// CPU times in user mode and in the kernel, in clock ticks of 10 ms.
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
  /// Times for which any thread of the control group, or of the machine, waited for memory or a disk (PSI); `nil` if
  /// unknown.
  package var memoryStalled: Duration?
  package var diskStalled: Duration?
  /// Bytes of files that the control group read again after the kernel had reclaimed them (`memory.stat`,
  /// `workingset_refault_file`); `nil` if unknown.
  package var refaultedBytes: UInt64?
  /// Number of allocations that met the group's memory limit (`memory.events`, `memory.failcnt`); `nil` if unknown.
  package var memoryLimitHits: UInt64?
  /// The current number of runnable threads of the machine; `nil` if unknown.
  package var runnableThreads: UInt32?
  /// The number of CPUs; `nil` if unknown.
  package var cpuCount: UInt32?

  package init() {}
}
