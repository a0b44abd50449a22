import CCulpritLinux
import Foundation
import Glibc

let page = 4096

/// A thread that runs `body`. The caller joins it.
struct RunningThread {
  private let thread: pthread_t

  private final class Body {
    let run: () -> Void
    init(_ run: @escaping () -> Void) { self.run = run }
  }

  /// Starts it, with `attributes` where there are any.
  init(attributes: UnsafePointer<pthread_attr_t>? = nil, _ body: @escaping () -> Void) {
    var thread = pthread_t()
    let context = Unmanaged.passRetained(Body(body)).toOpaque()
    pthread_create(
      &thread,
      attributes,
      { context in
        // SAFETY: the starter has retained it for this thread.
        context.map { Unmanaged<Body>.fromOpaque($0).takeRetainedValue() }?.run()
        return nil
      },
      context
    )
    self.thread = thread
  }

  func join() { pthread_join(thread, nil) }
}

/// Something that several threads share, alive as long as anybody refers to it.
final class Shared<Value>: @unchecked Sendable {
  // SAFETY: what is behind the pointer is atomic, or guarded by what is.
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

/// A file of its own with `content`, open for reading and writing, that has no name.
func unnamedFile(_ content: [UInt8] = []) -> Int32 {
  var name = Array((NSTemporaryDirectory() + "culprit-test-XXXXXX").utf8CString)
  let descriptor = mkstemp(&name)
  unlink(name)
  _ = write(descriptor, content, content.count)
  return descriptor
}
