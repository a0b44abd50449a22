/// The constant values of registers at calls and jumps, found by following code straight ahead.
///
/// Nothing is guessed: code that is not understood gives no result, and at jump targets all registers are unknown.
struct MachineCode {
  /// A constant value of a register.
  enum Constant: Hashable {
    case number(UInt64)
    case address(UInt64)
    /// The contents of memory at an address, a slot of the global offset table.
    case content(UInt64)

    fileprivate func adding(_ addend: UInt64) -> Constant? {
      switch self {
      case .number(let number): .number(number &+ addend)
      case .address(let address): .address(address &+ addend)
      case .content: addend == 0 ? self : nil
      }
    }
  }

  /// A jump or call with a fixed target.
  struct Transfer {
    /// The addresses of the instruction and of the next one.
    var place: UInt64
    var next: UInt64
    var target: UInt64
    var isCall: Bool
    /// Whether execution does not continue after it.
    var isLast: Bool
    /// The known registers at that point, by number.
    var registers: [Int: Constant]
  }

  /// The relevant effects of an instruction.
  struct Instruction {
    var length: Int
    /// The registers that it changes, one bit each.
    var writes: UInt32 = 0
    var constant: (register: Int, value: Constant)?
    /// A copy of a register to another, and the number added to it.
    var copy: (from: Int, to: Int, addend: UInt64)?
    var target: UInt64?
    var isCall = false
    /// Whether execution does not continue after it.
    var isEnd = false
    /// Whether it jumps to a computed address.
    var isComputed = false
  }

  private let bytes: [UInt8]
  private let start: UInt64
  private let isArm: Bool

  /// Creates the code `bytes`, which begin at `start`.
  init(_ bytes: [UInt8], start: UInt64, isArm: Bool) {
    self.bytes = bytes
    self.start = start
    self.isArm = isArm
  }

  /// The registers that pass arguments in the System V ABI and in the procedure call standard for the Arm architecture.
  var argumentRegisters: [Int] { isArm ? Array(0..<8) : [7, 6, 2, 1, 8, 9] }

  /// Registers that a call preserves. Swift's calling conventions use the other callee-saved ones for self and errors.
  private var savedRegisters: UInt32 { isArm ? 0x0f18_0000 : 1 << 3 | 1 << 5 | 1 << 14 | 1 << 15 }

  /// Returns every jump and call with a fixed target; `nil` if not all code is understood, or it has computed jumps.
  func transfers() -> [Transfer]? {
    var instructions: [(place: UInt64, what: Instruction)] = []
    var targets: Set<UInt64> = []
    var offset = 0
    while offset < bytes.count {
      guard let next = instruction(at: offset), !next.isComputed, next.length <= bytes.count - offset else {
        return nil
      }
      let place = start + UInt64(offset)
      if let target = next.target, !next.isCall { targets.insert(target) }
      instructions.append((place, next))
      offset += next.length
    }
    var found: [Transfer] = []
    var registers: [Int: Constant] = [:]
    for (place, instruction) in instructions {
      if targets.contains(place) { registers = [:] }
      if let target = instruction.target {
        found.append(
          Transfer(
            place: place,
            next: place + UInt64(instruction.length),
            target: target,
            isCall: instruction.isCall,
            isLast: instruction.isEnd,
            registers: registers
          )
        )
      }
      if instruction.isEnd { registers = [:] }
      if instruction.isCall { registers = registers.filter { savedRegisters & (1 << UInt32($0.key)) != 0 } }
      let copied = instruction.copy.flatMap { copy in registers[copy.from].flatMap { $0.adding(copy.addend) } }
      if instruction.writes != 0 { registers = registers.filter { instruction.writes & (1 << UInt32($0.key)) == 0 } }
      if let constant = instruction.constant { registers[constant.register] = constant.value }
      if let copy = instruction.copy { registers[copy.to] = copied }
    }
    return found
  }

  /// Returns the instruction at `offset`; `nil` if it is unknown.
  func instruction(at offset: Int) -> Instruction? { isArm ? arm(offset) : x86(offset) }

  private func number(_ offset: Int, _ count: Int) -> UInt64? {
    guard offset >= 0, offset + count <= bytes.count else { return nil }
    return (0..<count).reduce(0) { $0 | UInt64(bytes[offset + $1]) << UInt64(8 * $1) }
  }

  private func signed(_ offset: Int, _ count: Int) -> UInt64? {
    number(offset, count)
      .map { value in
        let shift = UInt64(64 - 8 * count)
        return UInt64(bitPattern: Int64(bitPattern: value << shift) >> Int64(shift))
      }
  }

  // MARK: x86_64

  private static let everything: UInt32 = 0xffff_ffff

  /// Returns the instruction at `offset` (Intel 64 manual, volume 2, appendix A); `nil` if it is unknown.
  private func x86(_ offset: Int) -> Instruction? {
    var place = offset
    var isShort = false
    while place < bytes.count,
      [0x66, 0x67, 0xf2, 0xf3, 0x2e, 0x36, 0x3e, 0x26, 0x64, 0x65, 0xf0].contains(bytes[place])
    {
      isShort = isShort || bytes[place] == 0x66
      place += 1
    }
    guard place < bytes.count else { return nil }
    var rex = 0
    if bytes[place] & 0xf0 == 0x40 {
      rex = Int(bytes[place] & 0xf)
      place += 1
    }
    guard place < bytes.count else { return nil }
    var map = 0
    var isVector = false
    switch bytes[place] {
    case 0xc5:
      (map, isVector, place) = (1, true, place + 2)
    case 0xc4:
      guard place + 1 < bytes.count else { return nil }
      (map, isVector, place) = (Int(bytes[place + 1] & 0x1f), true, place + 3)
    case 0x62:
      guard place + 1 < bytes.count else { return nil }
      (map, isVector, place) = (Int(bytes[place + 1] & 7), true, place + 4)
    case 0x0f:
      (map, place) = (1, place + 1)
      guard place < bytes.count else { return nil }
      if bytes[place] == 0x38 {
        (map, place) = (2, place + 1)
      } else if bytes[place] == 0x3a {
        (map, place) = (3, place + 1)
      }
    default: break
    }
    guard place < bytes.count else { return nil }
    let code = Int(bytes[place])
    place += 1
    guard isVector ? !(map == 1 && code == 0x77) : Self.hasOperand(map, code) else {
      return x86Plain(offset, place, map, code, rex, isShort, isVector)
    }
    guard place < bytes.count else { return nil }
    let (mode, field, low) = (Int(bytes[place] >> 6), Int(bytes[place] >> 3 & 7), Int(bytes[place] & 7))
    place += 1
    var displacement = mode == 1 ? 1 : mode == 2 ? 4 : 0
    if mode != 3, low == 4 {
      guard place < bytes.count else { return nil }
      if mode == 0, bytes[place] & 7 == 5 { displacement = 4 }
      place += 1
    } else if mode == 0, low == 5 {
      displacement = 4
    }
    let distance = signed(place, displacement == 0 ? 0 : displacement)
    place += displacement
    let immediate = Self.immediateBytes(map, code, field, isShort, isVector)
    let value = immediate <= 4 ? signed(place, immediate) : 0
    place += immediate
    guard let distance, let value, map <= 3 || isVector else { return nil }
    var result = Instruction(length: place - offset)
    if isVector {
      result.writes = Self.everything
      return result
    }
    let (register, operand) = (field | (rex & 4) << 1, low | (rex & 1) << 3)
    let isWide = rex & 8 != 0
    let isRelative = mode == 0 && low == 5
    let target = start &+ UInt64(place) &+ distance
    result.writes = Self.written(map, code, field, register, mode == 3 ? operand : nil)
    guard map == 0 else { return result }
    switch code {
    case 0x8d where isRelative && isWide: result.constant = (register, .address(target))
    case 0x8b where isRelative && isWide: result.constant = (register, .content(target))
    case 0x8b where mode == 3 && isWide: result.copy = (operand, register, 0)
    case 0x89 where mode == 3 && isWide: result.copy = (register, operand, 0)
    case 0x31 where mode == 3 && register == operand, 0x33 where mode == 3 && register == operand:
      result.constant = (operand, .number(0))
    case 0xc7 where mode == 3: result.constant = (operand, .number(isWide ? value : value & 0xffff_ffff))
    case 0xff where field == 4 || field == 5: (result.isEnd, result.isComputed) = (true, true)
    case 0xff where field == 2 || field == 3: result.isCall = true
    default: break
    }
    return result
  }

  /// Returns an instruction without a memory operand.
  private func x86Plain(
    _ offset: Int,
    _ immediateAt: Int,
    _ map: Int,
    _ code: Int,
    _ rex: Int,
    _ isShort: Bool,
    _ isVector: Bool
  ) -> Instruction? {
    var result = Instruction(length: immediateAt - offset)
    let register = code & 7 | (rex & 1) << 3
    func jump(_ count: Int) -> UInt64? {
      result.length += count
      return signed(immediateAt, count).map { start &+ UInt64(offset + result.length) &+ $0 }
    }
    if isVector { return result }
    if map == 1 {
      switch code {
      case 0x80...0x8f:
        result.target = jump(4)
        return result.target == nil ? nil : result
      case 0x0b: result.isEnd = true
      case 0x05, 0x31, 0xa2: result.writes = Self.everything
      case 0xc8...0xcf: result.writes = 1 << UInt32(register)
      case 0x77: break
      default: return nil
      }
      return result
    }
    guard map == 0 else { return nil }
    switch code {
    case 0x50...0x57, 0x90: break
    case 0x58...0x5f: result.writes = 1 << UInt32(register)
    case 0x98, 0x99: result.writes = 1 | 1 << 2
    case 0x70...0x7f: result.target = jump(1)
    case 0xeb, 0xe9:
      result.target = jump(code == 0xeb ? 1 : 4)
      result.isEnd = true
    case 0xe8:
      result.target = jump(4)
      result.isCall = true
    case 0xc3, 0xcc, 0xf4: result.isEnd = true
    case 0xc9: result.writes = 1 << 5
    case 0x68: result.length += isShort ? 2 : 4
    case 0x6a: result.length += 1
    case 0xa8: result.length += 1
    case 0xa9: result.length += isShort ? 2 : 4
    case 0xb0...0xb7:
      result.length += 1
      result.writes = 1 << UInt32(register) | 1 << UInt32(register & 3)
    case 0xb8...0xbf:
      let count = rex & 8 != 0 ? 8 : isShort ? 2 : 4
      result.length += count
      guard let value = number(immediateAt, count) else { return nil }
      result.writes = 1 << UInt32(register)
      if !isShort { result.constant = (register, .number(value)) }
    case 0..<0x40 where code & 7 == 4:
      result.length += 1
      result.writes = code == 0x3c ? 0 : 1
    case 0..<0x40 where code & 7 == 5:
      result.length += isShort ? 2 : 4
      result.writes = code == 0x3d ? 0 : 1
    // Instructions that move blocks of memory.
    case 0xa4, 0xa5, 0xaa, 0xab: result.writes = 1 << 1 | 1 << 6 | 1 << 7
    default: return nil
    }
    let isJump = (0x70...0x7f).contains(code) || code == 0xeb || code == 0xe9 || code == 0xe8
    return isJump && result.target == nil ? nil : result
  }

  private static func hasOperand(_ map: Int, _ code: Int) -> Bool {
    switch map {
    case 0:
      switch code {
      case 0..<0x40: code & 7 < 4
      case 0x63, 0x69, 0x6b, 0x80, 0x81, 0x83...0x8f, 0xc0, 0xc1, 0xc6, 0xc7, 0xd0...0xd3, 0xd8...0xdf, 0xf6, 0xf7,
        0xfe,
        0xff:
        true
      default: false
      }
    case 1:
      switch code {
      case 0x04...0x0c, 0x0e, 0x24...0x27, 0x30...0x37, 0x77, 0x80...0x8f, 0xa0...0xa2, 0xa8...0xaa, 0xc8...0xcf: false
      default: true
      }
    default: true
    }
  }

  private static func immediateBytes(_ map: Int, _ code: Int, _ field: Int, _ isShort: Bool, _ isVector: Bool) -> Int {
    switch (map, code) {
    case (0, 0x69), (0, 0x81), (0, 0xc7): isShort ? 2 : 4
    case (0, 0x6b), (0, 0x80), (0, 0x83), (0, 0xc0), (0, 0xc1), (0, 0xc6): 1
    case (0, 0xf6): field < 2 ? 1 : 0
    case (0, 0xf7): field < 2 ? isShort ? 2 : 4 : 0
    case (1, 0x70...0x73), (1, 0xa4), (1, 0xac), (1, 0xba), (1, 0xc2), (1, 0xc4...0xc6): 1
    case (3, _): 1
    default: 0
    }
  }

  /// Returns the registers that an instruction with an operand changes; all if unknown.
  private static func written(_ map: Int, _ code: Int, _ field: Int, _ register: Int, _ operand: Int?) -> UInt32 {
    let first = UInt32(1) << UInt32(register)
    let second = operand.map { UInt32(1) << UInt32($0) } ?? 0
    if map == 0 {
      switch code {
      case 0x38...0x3b, 0x84, 0x85: return 0
      case 0..<0x38:
        // The low half of a register can be encoded with another register's number.
        return code & 2 != 0
          ? first | (code & 1 == 0 ? 1 << UInt32(register & 3) : 0)
          : second | (code & 1 == 0 ? operand.map { 1 << UInt32($0 & 3) } ?? 0 : 0)
      case 0x63, 0x69, 0x6b, 0x8b, 0x8d: return first
      case 0x81, 0x83: return field == 7 ? 0 : second
      case 0x89, 0xc1, 0xc7, 0xd1, 0xd3: return second
      case 0xf7: return field < 2 ? 0 : field < 4 ? second : 1 | 1 << 2
      case 0xff: return field < 2 ? second : 0
      default: return everything
      }
    }
    guard map == 1 else { return everything }
    switch code {
    case 0x1e, 0x1f, 0x18, 0x10...0x17, 0x28, 0x29, 0x2b, 0x2e, 0x2f, 0x51...0x6f, 0x70...0x76, 0x7f, 0xd4, 0xd6, 0xe7,
      0xeb, 0xef, 0xf3, 0xfa, 0xfb, 0xfe, 0xc6:
      return 0
    case 0x40...0x4f, 0xaf, 0xb6, 0xb7, 0xbe, 0xbf: return first
    default: return everything
    }
  }

  // MARK: aarch64

  /// Returns the instruction at `offset` (Arm Architecture Reference Manual, C4.1).
  private func arm(_ offset: Int) -> Instruction? {
    guard let word = number(offset, 4) else { return nil }
    let here = start &+ UInt64(offset)
    let low = Int(word & 31)
    var result = Instruction(length: 4)
    func distance(_ from: UInt64, _ bits: UInt64) -> UInt64 {
      let field = word >> from & (1 << bits - 1)
      return UInt64(bitPattern: Int64(bitPattern: field << (64 - bits)) >> Int64(64 - bits)) &* 4
    }
    if word & 0x7c00_0000 == 0x1400_0000 {
      result.target = here &+ distance(0, 26)
      result.isCall = word >> 31 == 1
      result.isEnd = !result.isCall
    } else if word & 0xff00_0010 == 0x5400_0000 || word & 0x7e00_0000 == 0x3400_0000 {
      result.target = here &+ distance(5, 19)
    } else if word & 0x7e00_0000 == 0x3600_0000 {
      result.target = here &+ distance(5, 14)
    } else if word & 0xfe00_0000 == 0xd600_0000 {
      // br, blr, ret and their authenticated forms.
      let kind = word >> 21 & 7
      (result.isCall, result.isEnd, result.isComputed) = (kind == 1, kind != 1, kind == 0)
    } else if word & 0x9f00_0000 == 0x9000_0000 {
      let field = (word >> 5 & 0x7ffff) << 2 | word >> 29 & 3
      let pages = UInt64(bitPattern: Int64(bitPattern: field << 43) >> 43) << 12
      result.constant = (low, .address((here & ~0xfff) &+ pages))
      result.writes = 1 << UInt32(low)
    } else if word & 0xff80_0000 == 0xd280_0000 || word & 0xff80_0000 == 0x5280_0000 {
      result.constant = (low, .number((word >> 5 & 0xffff) << (16 * (word >> 21 & 3))))
      result.writes = 1 << UInt32(low)
    } else if word & 0xffe0_ffe0 == 0xaa00_03e0 {
      result.copy = (Int(word >> 16 & 31), low, 0)
      result.writes = 1 << UInt32(low)
    } else if word & 0xffc0_0000 == 0x9100_0000 {
      result.copy = (Int(word >> 5 & 31), low, word >> 10 & 0xfff)
      result.writes = 1 << UInt32(low)
    } else {
      // Other instructions can change the registers in their operand fields, including pairs and updated base
      // registers.
      result.writes = 1 << UInt32(low) | 1 << UInt32(word >> 10 & 31) | 1 << UInt32(word >> 5 & 31)
    }
    return result
  }
}
