import Testing

/// A general x86-64 register, by its DWARF number.
enum MadeUpRegister: Int, CaseIterable {
  case rax, rdx, rcx, rbx, rsi, rdi, rbp, rsp, r8, r9, r10, r11, r12, r13, r14, r15

  /// The number in instruction encodings.
  fileprivate var code: UInt8 { [0, 2, 1, 3, 6, 7, 5, 4, 8, 9, 10, 11, 12, 13, 14, 15][rawValue] }

  /// Callee-saved registers.
  static let kept: [MadeUpRegister] = [.rbx, .rbp, .r12, .r13, .r14, .r15]
}

/// An instruction, or a label between instructions. Jumps use the longest form.
enum MadeUpInstruction {
  /// A label. Code after a jump has the frame of the label `like`.
  case label(String, like: String? = nil)
  /// int3 up to a multiple of 16.
  case padding
  case push(MadeUpRegister)
  case pop(MadeUpRegister)
  case copy(to: MadeUpRegister, from: MadeUpRegister)
  case move(MadeUpRegister, by: Int)
  case lower(MadeUpRegister, by: MadeUpRegister)
  /// and with the negative of a power of two, up to 128.
  case align(MadeUpRegister, to: Int)
  case point(MadeUpRegister, at: MadeUpRegister, Int)
  case load(MadeUpRegister, from: MadeUpRegister, Int)
  case store(MadeUpRegister, to: MadeUpRegister, Int)
  case set(MadeUpRegister, Int)
  case address(MadeUpRegister, of: String)
  /// A call. An exception continues at `pad`.
  case call(String, pad: String? = nil)
  case callWord(String)
  case callRegister(MadeUpRegister)
  case jump(String)
  case jumpWord(String)
  /// jmp *%rax to one of these labels.
  case jumpByTable([String])
  /// jne. If `isTaken` is `nil`, the thread's `choose` decides.
  case branch(String, isTaken: Bool? = nil)
  case leave
  case exit
  case trap
  case nothing
  /// Other bytes, which the thread skips.
  case bytes([UInt8])

  static let enter: [MadeUpInstruction] = [.push(.rbp), .copy(to: .rbp, from: .rsp)]

  fileprivate var goesOn: Bool {
    switch self {
    case .jump, .jumpWord, .jumpByTable, .exit, .trap: false
    default: true
    }
  }
}

/// A generated x86-64 program: code, words for indirect jumps and calls, and unwind tables.
struct MadeUpProgram {
  struct Function {
    var start: UInt64
    var end: UInt64
    var isDescribed = true
    var isOutermost = false
    /// The table entry refers to an exception handler.
    var catches = false
    /// The function is outside the module and after its code, as if generated at run time.
    var isMadeAtRunTime = false
    /// Instructions of the table's rows, instead of the generated ones.
    var rows: [UInt8]?
  }

  static let base: UInt64 = 0x40_0000
  static let codeStart = base + 0x1_0000

  private(set) var functions: [String: Function] = [:]
  /// Words of the program and the labels that they contain.
  var words: [(name: String, value: String)] = []
  private(set) var labels: [String: UInt64] = [:]
  private var instructions: [(address: UInt64, instruction: MadeUpInstruction)] = []
  private var indices: [UInt64: Int] = [:]
  private var end = codeStart

  subscript(name: String) -> UInt64 {
    if let label = labels[name] { return label }
    guard let place = words.firstIndex(where: { $0.name == name }) else {
      Issue.record("no label or word \(name)")
      return 0
    }
    return Self.base + 0x8000 + 8 * UInt64(place)
  }

  /// Adds a function after int3, at the next multiple of `alignment` plus `offset`.
  mutating func add(
    _ name: String,
    alignment: UInt64 = 16,
    offset: UInt64 = 0,
    isDescribed: Bool = true,
    isOutermost: Bool = false,
    catches: Bool = false,
    isMadeAtRunTime: Bool = false,
    rows: [UInt8]? = nil,
    _ body: [MadeUpInstruction]
  ) {
    end = (end + alignment - 1 - offset) / alignment * alignment + offset
    let start = end
    labels[name] = start
    for instruction in body {
      if case .label(let label, _) = instruction { labels[label] = end }
      indices[end] = instructions.count
      instructions.append((end, instruction))
      end += UInt64(encoded(instruction, at: end, resolved: false).count)
    }
    functions[name] = Function(
      start: start,
      end: end,
      isDescribed: isDescribed && !isMadeAtRunTime,
      isOutermost: isOutermost,
      catches: catches,
      isMadeAtRunTime: isMadeAtRunTime,
      rows: rows
    )
  }

  fileprivate func instruction(at address: UInt64) -> (instruction: MadeUpInstruction, next: UInt64)? {
    guard let index = indices[address], index < instructions.count else { return nil }
    let (_, instruction) = instructions[index]
    return (instruction, address + UInt64(encoded(instruction, at: address).count))
  }

  /// Returns the addresses of the instructions of `name`.
  func addresses(in name: String) -> [UInt64] {
    guard let function = functions[name] else { return [] }
    var result: [UInt64] = []
    for (address, _) in instructions where address >= function.start && address < function.end {
      if result.last != address { result.append(address) }
    }
    return result
  }

  fileprivate func word(at address: UInt64) -> UInt64? {
    words.first { self[$0.name] == address }.map { self[$0.value] }
  }

  // MARK: Memory

  var module: RecordedStack.Module {
    let ends = functions.values.filter(\.isMadeAtRunTime).map(\.start).min() ?? end
    return .init(start: Self.base, end: ends, header: Self.base)
  }

  var memory: [RecordedStack.Piece] {
    // Padding before and after the code.
    let start = Self.codeStart - 64
    var code = [UInt8](repeating: 0xcc, count: Int(end - start) + 64)
    for (address, instruction) in instructions {
      let (bytes, place) = (encoded(instruction, at: address), Int(address - start))
      code.replaceSubrange(place..<place + bytes.count, with: bytes)
    }
    return [
      .init(address: Self.base, bytes: tables),
      .init(address: Self.base + 0x8000, bytes: words.flatMap { little(self[$0.value], 8) }),
      .init(address: start, bytes: code),
    ]
  }

  /// .eh_frame_hdr followed by .eh_frame.
  private var tables: [UInt8] {
    let rows = self.rows
    let described = functions.values.filter(\.isDescribed).sorted { $0.start < $1.start }
    let frames = Self.base + UInt64(12 + 8 * described.count)
    // "zRL" with relative 4-byte addresses. The first row: CFA at the stack pointer + 8, the return address below it.
    let common = entry(little(0, 4) + [1, 0x7a, 0x52, 0x4c, 0, 1, 0x78, 16, 2, 0x1b, 0x1b, 0x0c, 7, 8, 0x90, 1])
    var content = common
    var header = [1, 0x1b, 0x03, 0x3b] + little(frames - Self.base - 4, 4) + little(UInt64(described.count), 4)
    for function in described {
      let place = frames + UInt64(content.count)
      header += little(function.start &- Self.base, 4) + little(place - Self.base, 4)
      let lsda = function.catches ? Self.base &- (place + 17) : 0
      content += entry(
        little(place + 4 - frames, 4) + little(function.start &- (place + 8), 4)
          + little(function.end - function.start, 4) + [4] + little(lsda, 4)
          + (function.rows ?? (function.isOutermost ? [0x07, 16] : rows[function.start] ?? []))
      )
    }
    return header + content + little(0, 4)
  }

  /// An entry of .eh_frame, padded with nop.
  private func entry(_ content: [UInt8]) -> [UInt8] {
    let filling = [UInt8](repeating: 0, count: (8 - (content.count + 4) % 8) % 8)
    return little(UInt64(content.count + filling.count), 4) + content + filling
  }

  /// The frame at an instruction.
  private struct Row: Equatable {
    /// The base register of the frame's end, and its distance from the end.
    var register = MadeUpRegister.rsp
    var distance = 8
    /// The distance from the stack pointer to the frame's end; `nil` if it is known only at run time.
    var depth: Int? = 8
    /// The distances of saved registers below the frame's end.
    var saved: [MadeUpRegister: Int] = [:]
  }

  /// The rows of each function, by start address. A split part uses the frame of its function.
  private var rows: [UInt64: [UInt8]] {
    var result: [UInt64: [UInt8]] = [:]
    var reached: [UInt64: Row] = [:]
    for (name, function) in functions.sorted(by: { $0.value.start < $1.value.start }) {
      var (row, written, at, goesOn) = (reached[self[name]] ?? Row(), Row(), function.start, true)
      var code: [UInt8] = []
      for (address, instruction) in instructions where address >= function.start && address < function.end {
        if case .label(let name, let like) = instruction {
          if let known = reached[self[like ?? name]], !goesOn { row = known }
          reached[address] = row
          continue
        }
        if row != written {
          code += [0x04] + little(address - at, 4) + [0x0c, UInt8(row.register.rawValue)] + leb128(row.distance)
          for register in MadeUpRegister.allCases where row.saved[register] != written.saved[register] {
            let number = UInt8(register.rawValue)
            code += row.saved[register].map { [0x80 | number] + leb128($0 / 8) } ?? [0xc0 | number]
          }
          (written, at) = (row, address)
        }
        change(&row, by: instruction)
        for target in targets(of: instruction) where reached[self[target]] == nil { reached[self[target]] = row }
        goesOn = instruction.goesOn
      }
      result[function.start] = code
    }
    return result
  }

  private func targets(of instruction: MadeUpInstruction) -> [String] {
    switch instruction {
    case .call(_, let pad): pad.map { [$0] } ?? []
    case .jump(let label), .branch(let label, _): [label]
    case .jumpByTable(let all): all
    default: []
    }
  }

  private func change(_ row: inout Row, by instruction: MadeUpInstruction) {
    switch instruction {
    case .push(let register):
      row.depth = row.depth.map { $0 + 8 }
      if let depth = row.depth, MadeUpRegister.kept.contains(register), row.saved[register] == nil {
        row.saved[register] = depth
      }
    case .pop(let register):
      if row.saved[register] == row.depth {
        row.saved[register] = nil
        if register == row.register { row.register = .rsp }
      }
      row.depth = row.depth.map { $0 - 8 }
    case .move(.rsp, by: let amount): row.depth = row.depth.map { $0 - amount }
    case .lower(.rsp, by: _), .align(.rsp, to: _): row.depth = nil
    case .copy(to: .rbp, from: .rsp): (row.register, row.distance) = (.rbp, row.depth ?? 0)
    case .copy(to: .rsp, from: .rbp) where row.register == .rbp: row.depth = row.distance
    case .point(.rsp, at: .rbp, let distance) where row.register == .rbp: row.depth = row.distance - distance
    case .leave:
      (row.register, row.depth) = (.rsp, row.distance - 8)
      row.saved[.rbp] = nil
    default: break
    }
    if row.register == .rsp { row.distance = row.depth ?? 0 }
  }

  // MARK: Encodings

  private func encoded(_ instruction: MadeUpInstruction, at address: UInt64, resolved: Bool = true) -> [UInt8] {
    func wide(_ opcode: UInt8, _ field: UInt8, _ register: MadeUpRegister) -> [UInt8] {
      [0x48 | (field >> 3) << 2 | register.code >> 3, opcode, 0xc0 | (field & 7) << 3 | register.code & 7]
    }
    func memory(_ opcode: UInt8, _ register: MadeUpRegister, _ base: MadeUpRegister, _ distance: Int) -> [UInt8] {
      var bytes = wide(opcode, register.code, base)
      bytes[2] = bytes[2] & 0x3f | 0x80
      return bytes + (base.code & 7 == 4 ? [0x24] : []) + little(UInt64(bitPattern: Int64(distance)), 4)
    }
    func short(_ opcode: [UInt8], _ register: MadeUpRegister) -> [UInt8] {
      (register.code > 7 ? [0x41] : []) + opcode.dropLast() + [opcode[opcode.count - 1] + register.code & 7]
    }
    func relative(_ opcode: [UInt8], _ name: String) -> [UInt8] {
      let next = address + UInt64(opcode.count) + 4
      return opcode + little(resolved ? self[name] &- next : 0, 4)
    }
    switch instruction {
    case .label: return []
    case .padding: return [UInt8](repeating: 0xcc, count: Int((16 - address % 16) % 16))
    case .push(let register): return short([0x50], register)
    case .pop(let register): return short([0x58], register)
    case .copy(let to, let from): return wide(0x89, from.code, to)
    case .move(let register, let amount):
      return wide(0x81, amount < 0 ? 5 : 0, register) + little(UInt64(abs(amount)), 4)
    case .lower(let register, let by): return wide(0x29, by.code, register)
    case .align(let register, let to): return wide(0x83, 4, register) + [UInt8(truncatingIfNeeded: -to)]
    case .point(let register, let base, let distance): return memory(0x8d, register, base, distance)
    case .load(let register, let base, let distance): return memory(0x8b, register, base, distance)
    case .store(let register, let base, let distance): return memory(0x89, register, base, distance)
    case .set(let register, let value):
      return wide(0xc7, 0, register) + little(UInt64(bitPattern: Int64(value)), 4)
    case .address(let register, let name):
      return relative([0x48 | (register.code >> 3) << 2, 0x8d, 0x05 | (register.code & 7) << 3], name)
    case .call(let name, _): return relative([0xe8], name)
    case .callWord(let name): return relative([0xff, 0x15], name)
    case .callRegister(let register): return short([0xff, 0xd0], register)
    case .jump(let name): return relative([0xe9], name)
    case .jumpWord(let name): return relative([0xff, 0x25], name)
    case .jumpByTable: return [0xff, 0xe0]
    case .branch(let name, _): return relative([0x0f, 0x85], name)
    case .leave: return [0xc9]
    case .exit: return [0xc3]
    case .trap: return [0x0f, 0x0b]
    case .nothing: return [0x90]
    case .bytes(let bytes): return bytes
    }
  }

  private func little(_ value: UInt64, _ width: Int) -> [UInt8] {
    (0..<width).map { UInt8(truncatingIfNeeded: value >> UInt64(8 * $0)) }
  }

  private func leb128(_ value: Int) -> [UInt8] {
    value < 128 ? [UInt8(value)] : [UInt8(value % 128 + 128)] + leb128(value / 128)
  }
}

/// A thread of a generated program with its unfinished calls.
struct MadeUpThread {
  static let stackEnd: UInt64 = 0x7fff_0000_0000

  let program: MadeUpProgram
  private let memory: [RecordedStack.Piece]
  var pc: UInt64
  var registers = [UInt64](repeating: 0, count: 16)
  /// All words ever written to the stack, by address.
  var stack: [UInt64: UInt64] = [:]
  private(set) var calls: [Call] = []

  struct Call {
    var returnAddress: UInt64
    var registers: [UInt64]
    var pad: String?
  }

  subscript(register: MadeUpRegister) -> UInt64 {
    get { registers[register.rawValue] }
    set { registers[register.rawValue] = newValue }
  }

  init(_ program: MadeUpProgram, at first: String) {
    self.program = program
    memory = program.memory
    pc = program[first]
    self[.rsp] = Self.stackEnd - 64
    stack[self[.rsp]] = 0
  }

  /// Executes one instruction. `choose` gets the number of possible successors. Returns whether a successor exists.
  @discardableResult mutating func step(_ choose: (Int) -> Int = { _ in 0 }) -> Bool {
    guard let (instruction, next) = program.instruction(at: pc) else { return false }
    pc = next
    switch instruction {
    case .push(let register): push(self[register])
    case .pop(let register): self[register] = pop()
    case .copy(let to, let from): self[to] = self[from]
    case .move(let register, let amount): self[register] &+= UInt64(bitPattern: Int64(amount))
    case .lower(let register, let by): self[register] &-= self[by]
    case .align(let register, let to): self[register] &= ~UInt64(to - 1)
    case .point(let register, let base, let distance):
      self[register] = self[base] &+ UInt64(bitPattern: Int64(distance))
    case .load(let register, let base, let distance):
      let place = self[base] &+ UInt64(bitPattern: Int64(distance))
      self[register] = stack[place] ?? program.word(at: place) ?? 0
    case .store(let register, let base, let distance):
      stack[self[base] &+ UInt64(bitPattern: Int64(distance))] = self[register]
    case .set(let register, let value): self[register] = UInt64(bitPattern: Int64(value))
    case .address(let register, let name): self[register] = program[name]
    case .call(let name, let pad): call(program[name], pad)
    case .callWord(let name): call(program.word(at: program[name]) ?? 0, nil)
    case .callRegister(let register): call(self[register], nil)
    case .jump(let name): pc = program[name]
    case .jumpWord(let name): pc = program.word(at: program[name]) ?? 0
    case .jumpByTable(let names): pc = program[names[choose(names.count)]]
    case .branch(let name, let isTaken): if isTaken ?? (choose(2) == 1) { pc = program[name] }
    case .leave:
      self[.rsp] = self[.rbp]
      self[.rbp] = pop()
    case .exit:
      pc = pop()
      #expect(calls.popLast()?.returnAddress == pc, "made-up code returns without a call")
    case .trap, .padding: return false
    case .label, .nothing, .bytes: break
    }
    return true
  }

  /// Runs to the first occurrence of `label`, for at most `limit` instructions.
  mutating func run(to label: String, limit: Int = 10_000, _ choose: (Int) -> Int = { _ in 0 }) {
    for _ in 0..<limit {
      if pc == program[label] { return }
      guard step(choose) else { break }
    }
    Issue.record("\(label) was not reached")
  }

  /// Throws an exception, which continues at the innermost pad. Returns whether a pad exists.
  @discardableResult mutating func raise() -> Bool {
    guard let index = calls.lastIndex(where: { $0.pad != nil }), let pad = calls[index].pad else { return false }
    let call = calls[index]
    calls.removeSubrange(index...)
    pc = program[pad]
    for register in MadeUpRegister.kept + [.rsp] { self[register] = call.registers[register.rawValue] }
    return true
  }

  private mutating func call(_ target: UInt64, _ pad: String?) {
    calls.append(Call(returnAddress: pc, registers: registers, pad: pad))
    push(pc)
    pc = target
  }

  private mutating func push(_ value: UInt64) {
    self[.rsp] -= 8
    stack[self[.rsp]] = value
  }

  private mutating func pop() -> UInt64 {
    defer { self[.rsp] += 8 }
    return stack[self[.rsp]] ?? 0
  }

  var frames: [RecordedStack.Frame] {
    [.init(address: pc, isReturnAddress: false)]
      + calls.reversed().map { .init(address: $0.returnAddress, isReturnAddress: true) }
  }

  func recorded(known: Set<MadeUpRegister> = Set(MadeUpRegister.allCases)) -> RecordedStack {
    var result = RecordedStack(kind: "made up", architecture: "x86_64")
    result.registers[16] = pc
    for register in MadeUpRegister.allCases where known.contains(register) || register == .rsp {
      result.registers[register.rawValue] = self[register]
    }
    result.stackStart = self[.rsp] - 128
    result.stackEnd = Self.stackEnd
    result.bytes = [UInt8](repeating: 0, count: Int(result.stackEnd - result.stackStart))
    for (address, word) in stack where address >= result.stackStart && address + 8 <= result.stackEnd {
      for index in 0..<8 {
        result.bytes[Int(address - result.stackStart) + index] = UInt8(truncatingIfNeeded: word >> UInt64(8 * index))
      }
    }
    result.modules = [program.module]
    result.memory = memory
    result.frames = frames
    return result
  }
}
