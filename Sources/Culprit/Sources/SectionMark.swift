import CCulpritObserver

/// The sections of a task, including sections inherited at its creation. Samplers read this object from other threads.
final class SectionMark: Sendable {
  /// The section's number (`observer_section_number`). The first property, directly after the object header.
  let section: UInt64
  /// The mark of the enclosing section, because a new task inherits only the innermost binding. The second property.
  let outer: SectionMark?

  @TaskLocal static var current: SectionMark?

  /// The key of ``current`` among task-local values.
  static var key: UInt64 { UInt64(UInt(bitPattern: Unmanaged.passUnretained($current).toOpaque())) }

  init(_ lease: SlotRegistry.Lease) {
    section = observer_section_number(UInt32(truncatingIfNeeded: lease.index), lease.generation)
    outer = Self.current
  }
}
