import CCulpritLinux

/// A value behind a lock, as the standard library's type of this name has it, whose place it takes in this module.
///
/// That one cannot be used in a library whose service forks: it has the kernel look for its owner by thread id. A child of
/// fork(2) does not have the thread, and the standard library ends the process; and the child's own thread is remembered by
/// the id that it had in the parent. Here a lock that was held in the parent is free in the child
/// (`clinux_lock.h`). What it guards may be half changed then: who can be called in a child asks first whether the value is
/// of this process (`clinux_process_is`), and a value that is half changed is never deinitialized.
///
/// Holders are not raised to the priority of who waits for them. No thread that has to keep time waits for one.
struct Mutex<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
  private struct Storage: ~Copyable {
    var lock: clinux_lock
    var value: Value
  }

  // SAFETY: the value is read and changed by who holds the lock only.
  private let storage: UnsafeMutablePointer<Storage>

  /// The lock is the first thing in the storage.
  private var lock: UnsafeMutablePointer<clinux_lock> {
    UnsafeMutableRawPointer(storage).assumingMemoryBound(to: clinux_lock.self)
  }

  init(_ value: consuming sending Value) {
    storage = .allocate(capacity: 1)
    storage.initialize(to: Storage(lock: clinux_lock(), value: value))
  }

  deinit {
    // Held by a thread of the process that this one was forked from.
    if clinux_lock_is_taken(lock) { return }
    // SAFETY: nobody else refers to what is let go.
    storage.deinitialize(count: 1)
    storage.deallocate()
  }

  /// Calls `body` with the value while nobody else has it.
  borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    clinux_lock_take(lock)
    defer { clinux_lock_release(lock) }
    return try body(&storage.pointee.value)
  }

  /// The same, unless somebody has it: `nil` then.
  borrowing func withLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result? {
    guard clinux_lock_try(lock) else { return nil }
    defer { clinux_lock_release(lock) }
    return try body(&storage.pointee.value)
  }

  /// Begins anew in a child of fork(2), with `value`, before anybody uses what there was: that may be half changed, and is
  /// forgotten.
  borrowing func startOver(_ value: consuming sending Value) {
    storage.initialize(to: Storage(lock: clinux_lock(), value: value))
  }
}
