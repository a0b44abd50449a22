import CCulpritObserver
import CulpritStallRecord

struct CapturedSample {
  var sample: Sample
  var stack: Stack?
  var gap: Duration
  var lost: UInt64

  /// Decodes `event`, which must be a sample or one thread of an all-threads capture.
  init(_ event: UnsafePointer<observer_event>) {
    // SAFETY: the event stays valid until the ring's only reader consumes it, and `count` frames follow it in the ring.
    let head = event.pointee
    let frames = UnsafeBufferPointer(start: observer_event_frames(event), count: Int(head.count))
    let stack = Stack(
      frames: frames.map { frame in
        let address = RuntimeAddress(frame.address)
        let isKnown = frame.offset != UNWIND_NO_OFFSET
        let start = isKnown ? RuntimeAddress(frame.address &- UInt64(frame.offset)) : nil
        let kind = FrameKind(rawValue: UInt8(truncatingIfNeeded: frame.kind)) ?? .programCounter
        return StackFrame(address, kind, functionStart: start)
      },
      end: StackEnd(rawValue: UInt8(truncatingIfNeeded: head.end)) ?? .failed,
      joinedFrom: head.joined_from == 0 ? nil : Int(head.joined_from),
      omission: head.left_out == 0
        ? nil : Stack.Omission(index: Int(UNWIND_FRAMES_INNER), count: Int(head.left_out))
    )
    sample = Sample(
      age: Duration(wholeNanoseconds: head.age_ns),
      stack: nil,
      outcome: CaptureOutcome(rawValue: UInt8(truncatingIfNeeded: head.status)) ?? .noAnswer,
      cpuTime: head.cpu_ns == 0 ? nil : Duration(wholeNanoseconds: head.cpu_ns),
      activity: ThreadActivity(code: UInt8(truncatingIfNeeded: head.activity), call: head.call),
      handlerTime: Duration(wholeNanoseconds: head.handler_ns),
      unwindTime: Duration(wholeNanoseconds: head.unwind_ns),
      label: head.label.string,
      progress: head.queue_head,
      runDelay: head.run_delay_ns == .max ? nil : Duration(wholeNanoseconds: head.run_delay_ns),
      threadID: head.role == OBSERVER_OF_ONE_OF_SEVERAL.rawValue ? head.tid : nil,
      obstacle: Self.obstacle(head.role),
      waitingCount: head.waiting,
      descriptor: Self.descriptor(head.descriptor),
      lock: Self.lock(head.lock, of: head.tid),
      evidence: SampleEvidence(head.evidence)
    )
    self.stack = stack.frames.isEmpty ? nil : stack
    gap = Duration(wholeNanoseconds: head.gap_ns)
    lost = head.lost
  }

  private static func obstacle(_ role: UInt32) -> Sample.Obstacle? {
    switch role {
    case OBSERVER_OF_ONE_IN_THE_WAY.rawValue: .thread
    case OBSERVER_OF_ONE_ON_ACTOR.rawValue: .actor
    default: nil
    }
  }

  private static func lock(_ found: observer_lock, of waiter: Int32) -> HeldLock? {
    guard found.kind != OBSERVER_LOCK_NONE.rawValue else { return nil }
    return HeldLock(
      kind: HeldLock.Kind(code: UInt8(truncatingIfNeeded: found.kind)),
      address: found.address,
      holderID: found.holder,
      waiterID: waiter,
      isOrphaned: found.is_orphaned,
      isTimed: found.is_timed
    )
  }

  private static func descriptor(_ found: observer_descriptor) -> Descriptor? {
    guard found.target_bytes > 0 else { return nil }
    return Descriptor(
      number: found.number,
      target: withUnsafeBytes(of: found.target) { String(decoding: $0.prefix(Int(found.target_bytes)), as: UTF8.self) },
      isCut: found.is_cut
    )
  }
}

extension observer_label {
  var string: String { withUnsafeBytes(of: text) { String(decoding: $0.prefix(Int(bytes)), as: UTF8.self) } }
}
