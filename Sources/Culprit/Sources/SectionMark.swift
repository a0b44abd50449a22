import CCulpritObserver

/// The sections that a task works for: its own, and by inheritance those of the task that started it. Samplers read it from outside.
final class SectionMark: Sendable {
  /// The section's number (`observer_section_number`). The first property: it lies where the object's head ends.
  let section: UInt64
  /// The mark of the enclosing section. The second property. A new task inherits only the innermost binding of a task-local value.
  let outer: SectionMark?

  /// The mark of the current task.
  @TaskLocal static var current: SectionMark?

  /// The key of the mark among task-local values.
  static var key: UInt64 { UInt64(UInt(bitPattern: Unmanaged.passUnretained($current).toOpaque())) }

  /// The mark of the section that `lease` watches, within the sections of the current task.
  init(_ lease: SlotRegistry.Lease) {
    section = observer_section_number(UInt32(truncatingIfNeeded: lease.index), lease.generation)
    outer = Self.current
  }
}
