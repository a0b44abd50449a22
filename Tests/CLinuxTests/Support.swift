import CCulpritLinux
import Foundation
import Glibc

let page = 4096

/// A thread that the caller must join.
struct RunningThread {
  private let thread: pthread_t

  private final class Body {
    let run: () -> Void
    init(_ run: @escaping () -> Void) { self.run = run }
  }

  /// Starts the thread, with `attributes` if given.
  init(attributes: UnsafePointer<pthread_attr_t>? = nil, _ body: @escaping () -> Void) {
    var thread = pthread_t()
    let context = Unmanaged.passRetained(Body(body)).toOpaque()
    pthread_create(
      &thread,
      attributes,
      { context in
        // SAFETY: the initializer retained the body for this thread.
        context.map { Unmanaged<Body>.fromOpaque($0).takeRetainedValue() }?.run()
        return nil
      },
      context
    )
    self.thread = thread
  }

  func join() { pthread_join(thread, nil) }
}

/// A value that several threads share. It lives as long as any reference.
final class Shared<Value>: @unchecked Sendable {
  // SAFETY: all accesses through the pointer are atomic, or ordered by atomic accesses.
  let pointer: UnsafeMutablePointer<Value>

  init(_ value: Value) {
    pointer = .allocate(capacity: 1)
    pointer.initialize(to: value)
  }

  deinit {
    pointer.deinitialize(count: 1)
    pointer.deallocate()
  }
}

/// Creates an unlinked file with `content`, open for reading and writing.
func unnamedFile(_ content: [UInt8] = []) -> Int32 {
  var name = Array((NSTemporaryDirectory() + "culprit-test-XXXXXX").utf8CString)
  let descriptor = mkstemp(&name)
  unlink(name)
  _ = write(descriptor, content, content.count)
  return descriptor
}
