import CCulpritObserver
import CulpritStallRecord

extension SampleEvidence {
  init(_ found: observer_evidence) {
    self.init()
    if found.has_arguments {
      arguments = withUnsafeBytes(of: found.arguments) { Array($0.bindMemory(to: UInt64.self)) }
    }
    words = withUnsafeBytes(of: found.words) { Array($0.bindMemory(to: UInt32.self).prefix(Int(found.word_count))) }
    kernelFunction = withUnsafeBytes(of: found.kernel_function) {
      String(decoding: $0.prefix(Int(found.kernel_function_bytes)), as: UTF8.self)
    }
    timeslices = found.turns == 0 ? nil : found.turns
    if found.has_counters { counters = ThreadCounters(found.counters) }
    if found.has_surroundings { surroundings = SurroundingCounters(found.surroundings) }
  }
}

extension ThreadCounters {
  fileprivate init(_ found: observer_thread_counters) {
    self.init()
    voluntarySwitches = found.voluntary_switches
    involuntarySwitches = found.involuntary_switches
    minorFaults = found.minor_faults
    majorFaults = found.major_faults
    userTicks = found.user_ticks
    systemTicks = found.system_ticks
    readBytes = found.read_bytes
    writtenBytes = found.written_bytes
    diskReadBytes = found.disk_read_bytes
    diskWrittenBytes = found.disk_written_bytes
  }
}

extension SurroundingCounters {
  fileprivate init(_ found: observer_surroundings) {
    self.init()
    func time(_ nanoseconds: UInt64) -> Duration? {
      nanoseconds == .max ? nil : Duration(wholeNanoseconds: nanoseconds)
    }
    throttled = time(found.throttled_ns)
    memoryStalled = time(found.memory_stalled_ns)
    diskStalled = time(found.disk_stalled_ns)
    refaultedBytes = found.refaulted_bytes == .max ? nil : found.refaulted_bytes
    memoryLimitHits = found.limit_hits == .max ? nil : found.limit_hits
    runnableThreads = found.runnable == 0 ? nil : found.runnable
    cpuCount = found.cpus == 0 ? nil : found.cpus
  }
}
