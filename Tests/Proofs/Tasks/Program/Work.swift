import Dispatch
import Glibc
import Synchronization

/// Ways to hold a thread, each in a function that a report can name.
enum Holding: String, CaseIterable {
  case computing, sleeping, locking, reading

  var function: String {
    switch self {
    case .computing: "holdByComputing(_:)"
    case .sleeping: "holdBySleeping(_:)"
    case .locking: "holdByLocking(_:)"
    case .reading: "holdByReading(_:)"
    }
  }

  func hold(_ milliseconds: Int) {
    switch self {
    case .computing: holdByComputing(milliseconds)
    case .sleeping: holdBySleeping(milliseconds)
    case .locking: holdByLocking(milliseconds)
    case .reading: holdByReading(milliseconds)
    }
  }
}

@inline(never)
private func holdByComputing(_ milliseconds: Int) {
  let end = DispatchTime.now() + .milliseconds(milliseconds)
  while DispatchTime.now() < end {}
}

@inline(never)
private func holdBySleeping(_ milliseconds: Int) {
  usleep(UInt32(milliseconds) * 1000)
  after.add(1, ordering: .relaxed)
}

/// Waits for a lock until a queue releases it.
@inline(never)
private func holdByLocking(_ milliseconds: Int) {
  let lock = DispatchSemaphore(value: 0)
  DispatchQueue.global(qos: .userInteractive).asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
    lock.signal()
  }
  lock.wait()
  after.add(1, ordering: .relaxed)
}

/// Reads from a pipe until a queue writes to it.
@inline(never)
private func holdByReading(_ milliseconds: Int) {
  var ends: [Int32] = [0, 0]
  guard pipe(&ends) == 0 else { return }
  let writer = ends[1]
  DispatchQueue.global(qos: .userInteractive).asyncAfter(deadline: .now() + .milliseconds(milliseconds)) {
    var byte: UInt8 = 1
    write(writer, &byte, 1)
  }
  var byte: UInt8 = 0
  read(ends[0], &byte, 1)
  close(ends[0])
  close(ends[1])
}

/// Modified after a function's last call, to keep the caller on the stack.
private let after = Atomic<Int>(0)

/// Runs after the culprit. The name must differ from the culprits' names.
@inline(never)
func finishByComputing(_ milliseconds: Int) {
  let end = DispatchTime.now() + .milliseconds(milliseconds)
  while DispatchTime.now() < end {}
}

@inline(never)
func finishBySleeping(_ milliseconds: Int) {
  usleep(UInt32(milliseconds) * 1000)
  after.add(1, ordering: .relaxed)
}

/// Computes for a short turn of a task.
@inline(never)
func takeATurn(_ microseconds: Int) {
  let end = DispatchTime.now() + .microseconds(microseconds)
  while DispatchTime.now() < end {}
}
