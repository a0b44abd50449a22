import CCulpritLinux

/// A value behind a lock, in place of the standard library's type.
///
/// The standard library's mutex terminates a child of fork(2) that lacks the owner's thread. With this mutex, a lock
/// held in the parent is free in the child (`clinux_lock.h`), but the value might be inconsistent. Code that a child
/// can call must first check that the value belongs to this process (`clinux_process_is`).
///
/// A guarded function must be a property of a structure: each access to a plain function adds two thunks.
struct Mutex<Value: ~Copyable>: ~Copyable, @unchecked Sendable {
  private struct Storage: ~Copyable {
    var lock: clinux_lock
    var value: Value
  }

  // SAFETY: the value is accessed only while the lock is held.
  private let storage: UnsafeMutablePointer<Storage>

  /// The lock is the first field of the storage.
  private var lock: UnsafeMutablePointer<clinux_lock> {
    UnsafeMutableRawPointer(storage).assumingMemoryBound(to: clinux_lock.self)
  }

  init(_ value: consuming sending Value) {
    storage = .allocate(capacity: 1)
    storage.initialize(to: Storage(lock: clinux_lock(), value: value))
  }

  deinit {
    // A thread of the parent process held the lock at the fork: the value might be inconsistent.
    if clinux_lock_is_taken(lock) { return }
    // SAFETY: no other reference to the storage exists in `deinit`.
    storage.deinitialize(count: 1)
    storage.deallocate()
  }

  borrowing func withLock<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result {
    clinux_lock_take(lock)
    defer { clinux_lock_release(lock) }
    return try body(&storage.pointee.value)
  }

  /// Returns `nil` if the lock is taken.
  borrowing func withLockIfAvailable<Result: ~Copyable, Failure: Error>(
    _ body: (inout sending Value) throws(Failure) -> sending Result
  ) throws(Failure) -> sending Result? {
    guard clinux_lock_try(lock) else { return nil }
    defer { clinux_lock_release(lock) }
    return try body(&storage.pointee.value)
  }

  /// Replaces the value in a child of fork(2), before any other use. The old value is not deinitialized.
  borrowing func startOver(_ value: consuming sending Value) {
    storage.initialize(to: Storage(lock: clinux_lock(), value: value))
  }
}

extension Mutex where Value: Sendable {
  func exchange(_ value: Value) -> Value {
    withLock { present in
      defer { present = value }
      return present
    }
  }
}
