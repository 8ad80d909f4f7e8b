internal import Foundation
internal import ChaparCore

/// Random numbers from a seed, the same in every run.
package struct Dice: RandomNumberGenerator {
    private var generator: SeededGenerator

    /// Makes the numbers of a case; those of neighbouring cases are unrelated.
    package init(seed: Int) {
        generator = SeededGenerator(seed: UInt64(truncatingIfNeeded: seed) &* 0xD129_0D3B_5A69_C1F5 &+ 0x9E37_79B9)
    }

    /// Returns the next number.
    package mutating func next() -> UInt64 { generator.next() }

    /// Returns a number of a range.
    package mutating func roll(_ range: ClosedRange<Int>) -> Int { .random(in: range, using: &self) }

    /// Returns true once in `times` on average.
    package mutating func happens(onceIn times: Int) -> Bool { roll(1...times) == 1 }

    /// Returns one of the values, of which there must be at least one.
    package mutating func pick<Value>(_ values: [Value]) -> Value { values[roll(0...values.count - 1)] }

    /// Makes a number of random bytes.
    package mutating func bytes(_ count: Int) -> [UInt8] {
        (0..<count).map { _ in UInt8(truncatingIfNeeded: roll(0...255)) }
    }

    /// The way in which bytes are split.
    package enum Cut: CaseIterable { case nowhere, somewhere, everywhere }

    /// Returns the bytes in pieces: whole, cut at random places, or one by one.
    package mutating func cut(_ bytes: [UInt8], _ wish: Cut? = nil) -> [[UInt8]] {
        switch wish ?? pick(Cut.allCases) {
        case .everywhere where bytes.count < 4000: return bytes.map { [$0] }
        case .somewhere:
            var (pieces, rest): ([[UInt8]], ArraySlice<UInt8>) = ([], bytes[...])
            while !rest.isEmpty {
                let count = roll(1...max(1, bytes.count / 4))
                pieces.append(Array(rest.prefix(count)))
                rest = rest.dropFirst(count)
            }
            return pieces
        default: return [bytes]
        }
    }

    /// Returns the bytes with some bits flipped, none before `start`.
    package mutating func flip(_ bytes: [UInt8], from start: Int) -> [UInt8] {
        var spoilt = bytes
        guard start < bytes.count else { return bytes }
        for _ in 0..<roll(1...8) {
            spoilt[roll(start...bytes.count - 1)] ^= UInt8(truncatingIfNeeded: 1 << roll(0...7))
        }
        return spoilt
    }

    /// Returns the numbers of cases, in groups that run together: `usual` of them, or those of the variable
    /// `CHAPAR_FUZZ`, which is a count (`20000`) or a range (`1234...1240`).
    package static func cases(_ usual: Int, together: Int) -> [ClosedRange<Int>] {
        let wish = ProcessInfo.processInfo.environment["CHAPAR_FUZZ"] ?? ""
        let ends = wish.split(separator: ".").compactMap { Int($0) }
        let first = ends.count == 2 ? ends[0] : 1
        let last = max(first, ends.last ?? usual)
        return stride(from: first, through: last, by: together).map { $0...min($0 + together - 1, last) }
    }
}
