import CCulpritUnwind
import Glibc

/// An unwinder whose callbacks read only from a recording.
final class FixtureUnwinder {
  struct Found: Equatable {
    var frames: [RecordedStack.Frame]
    /// The number of omitted frames after the first `UNWIND_FRAMES_INNER`.
    var leftOut: Int
    /// The index of the first frame from an earlier stack, or 0.
    var joinedFrom: Int
    var end: String
    /// The stack address of each frame's return address, or 0 if the return address was in a register.
    var places: [UInt64]

    var outcome: RecordedStack.Outcome { .init(count: frames.count + leftOut, end: end) }
  }

  enum Failure: Error { case architecture(String) }

  /// The longest CPU time of an unwinding, in seconds.
  private(set) var slowest = 0.0
  var moduleLookups: Int { memory.pointee.lookups }
  private let storage: UnsafeMutableRawPointer
  private let unwinder: OpaquePointer
  private let memory: UnsafeMutablePointer<Memory>
  private let frames = UnsafeMutablePointer<unwind_frame>.allocate(capacity: Int(UNWIND_FRAMES_MAX))
  private let places = UnsafeMutablePointer<UInt64>.allocate(capacity: Int(UNWIND_FRAMES_MAX))

  /// Sorted memory pieces with contiguous bytes, and modules.
  private struct Memory {
    var pieces = UnsafeMutableBufferPointer<Piece>.allocate(capacity: 0)
    var bytes = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 0)
    var modules = UnsafeMutableBufferPointer<RecordedStack.Module>.allocate(capacity: 0)
    var lookups = 0

    struct Piece {
      var start: UInt64
      var end: UInt64
      var offset: Int
    }

    func deallocate() {
      pieces.deallocate()
      bytes.deallocate()
      modules.deallocate()
    }
  }

  init(_ architecture: String) throws {
    guard let known = cunwind_architecture(architecture) else { throw Failure.architecture(architecture) }
    let storage = UnsafeMutableRawPointer.allocate(byteCount: cunwind_bytes(), alignment: 64)
    memset(storage, 0, cunwind_bytes())
    let memory = UnsafeMutablePointer<Memory>.allocate(capacity: 1)
    memory.initialize(to: Memory())
    let process = unwind_process(
      read: { context, address, destination, length in
        // SAFETY: the context is this unwinder's memory, which outlives its callbacks.
        guard let memory = context?.assumingMemoryBound(to: Memory.self), let destination else { return false }
        return FixtureUnwinder.read(memory.pointee, address, destination, length)
      },
      find_module: { context, address, found in
        // SAFETY: the context is this unwinder's memory, which outlives its callbacks.
        guard let memory = context?.assumingMemoryBound(to: Memory.self) else { return false }
        memory.pointee.lookups += 1
        for module in memory.pointee.modules where address >= module.start && address < module.end {
          found?.pointee = unwind_module(start: module.start, end: module.end, eh_frame_hdr: module.header)
          return true
        }
        return false
      },
      context: memory
    )
    guard let unwinder = cunwind_create(storage, known, process) else { throw Failure.architecture(architecture) }
    self.storage = storage
    self.memory = memory
    self.unwinder = unwinder
  }

  deinit {
    memory.pointee.deallocate()
    memory.deallocate()
    storage.deallocate()
    frames.deallocate()
    places.deallocate()
  }

  private static func read(
    _ memory: Memory,
    _ address: UInt64,
    _ destination: UnsafeMutableRawPointer,
    _ length: Int
  ) -> Bool {
    var (low, high) = (0, memory.pieces.count)
    while low < high {
      let middle = (low + high) / 2
      if memory.pieces[middle].start <= address { low = middle + 1 } else { high = middle }
    }
    guard low > 0 else { return false }
    let piece = memory.pieces[low - 1]
    // Adjacent pieces were merged.
    guard address < piece.end, UInt64(length) <= piece.end - address, let bytes = memory.bytes.baseAddress else {
      return false
    }
    memcpy(destination, bytes + piece.offset + Int(address - piece.start), length)
    return true
  }

  func wipe() { cunwind_wipe(unwinder) }

  /// Whether the unwinder's memory has 512 consecutive bytes of the value `byte`.
  func holds(_ byte: UInt8) -> Bool {
    var count = 0
    for value in UnsafeRawBufferPointer(start: storage, count: cunwind_bytes()) {
      count = value == byte ? count + 1 : 0
      if count == 512 { return true }
    }
    return false
  }

  private func use(_ stack: RecordedStack) {
    memory.pointee.deallocate()
    var pieces: [Memory.Piece] = []
    var bytes: [UInt8] = []
    for piece in stack.memory {
      let end = piece.address + UInt64(piece.bytes.count)
      if let last = pieces.last, last.end == piece.address {
        pieces[pieces.count - 1].end = end
      } else {
        pieces.append(Memory.Piece(start: piece.address, end: end, offset: bytes.count))
      }
      bytes += piece.bytes
    }
    func copied<Element>(_ elements: [Element]) -> UnsafeMutableBufferPointer<Element> {
      let buffer = UnsafeMutableBufferPointer<Element>.allocate(capacity: elements.count)
      _ = buffer.initialize(from: elements)
      return buffer
    }
    memory.pointee = Memory(pieces: copied(pieces), bytes: copied(bytes), modules: copied(stack.modules))
  }

  static let item = unwind_work_item(slot: 1, generation: 1, began_ns: 1, tid: 1)

  /// Unwinds `stack`. With `joins`, keeps a complete stack for `item`, and joins an incomplete one with the kept stack.
  /// Without `remembers`, clears the cache first.
  func unwind(
    _ stack: RecordedStack,
    joins: Bool = false,
    remembers: Bool = false,
    item: unwind_work_item = item
  ) -> Found {
    use(stack)
    if !remembers { cunwind_forget(unwinder) }
    var registers = unwind_registers()
    withUnsafeMutableBytes(of: &registers.values) { raw in
      let values = raw.bindMemory(to: UInt64.self)
      for (number, value) in stack.registers where number < values.count { values[number] = value }
    }
    for number in stack.registers.keys where number < Int(UNWIND_REGISTERS_MAX) {
      registers.known |= 1 << UInt64(number)
    }
    var found = unwind_stack()
    found.frames = frames
    found.places = places
    let bytes = stack.bytes + stack.ownBytes
    bytes.withUnsafeBufferPointer { bytes in
      var copy = stack_copy()
      copy.registers = registers
      copy.stack_start = stack.stackStart
      copy.stack_bytes = UInt64(stack.bytes.count)
      copy.stack_end = stack.stackEnd
      copy.truncated = stack.isTruncated
      copy.own_low = stack.ownLow
      copy.own_end = stack.ownEnd
      copy.own_start = stack.ownStart
      copy.own_bytes = UInt64(stack.ownBytes.count)
      copy.stack = bytes.baseAddress
      let began = cpuTime()
      cunwind_unwind(unwinder, &copy, &found)
      if joins {
        cunwind_join(unwinder, &copy, item, &found)
      }
      slowest = max(slowest, cpuTime() - began)
    }
    let end = Int(found.end.rawValue)
    return Found(
      frames: UnsafeBufferPointer(start: frames, count: Int(found.count)).map {
        RecordedStack.Frame(address: $0.address, isReturnAddress: $0.kind == UNWIND_RETURN_ADDRESS.rawValue)
      },
      leftOut: Int(found.left_out),
      joinedFrom: Int(found.joined_from),
      end: RecordedStack.ends.indices.contains(end) ? RecordedStack.ends[end] : "unknown (\(end))",
      places: Array(UnsafeBufferPointer(start: places, count: Int(found.count)))
    )
  }

  private func cpuTime() -> Double {
    var time = timespec()
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time)
    return Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
  }
}
