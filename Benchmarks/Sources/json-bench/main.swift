// json-bench
//
// Parses one object of 8 MiB with 900,000 keys, and as many bytes in objects of 64 KiB, by turns, and prints one JSON line: the
// nanoseconds of CPU for each byte (the median of seven turns), and their ratio.

import BenchSupport
import Foundation
import ChaparCore

/// An object with `count` short members, of which each has a name of its own.
func document(members count: Int) -> [UInt8] {
    // Names of four letters of 64, and a second digit in each third value: 9.3 bytes a member, as 8 MiB with 900,000 have.
    let letters = Array("0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ-_".utf8)
    var bytes: [UInt8] = [UInt8(ascii: "{")]
    for number in 0..<count {
        if number > 0 { bytes.append(UInt8(ascii: ",")) }
        bytes.append(UInt8(ascii: "\""))
        // Spread, so that neighbours in the document are none in an index.
        let spread = number &* 7_654_321 & 0xFF_FFFF
        for shift in [18, 12, 6, 0] { bytes.append(letters[spread >> shift & 63]) }
        bytes.append(contentsOf: "\":".utf8)
        if number % 3 == 0 { bytes.append(UInt8(ascii: "1")) }
        bytes.append(UInt8(ascii: "0") + UInt8(number % 10))
    }
    bytes.append(UInt8(ascii: "}"))
    return bytes
}

/// Nanoseconds of CPU for each byte, of parsing a document so many times.
func cost(_ document: [UInt8], times: Int) throws -> Double {
    let begin = used().cpu
    for _ in 0..<times {
        guard try JSONValue(parsing: document).objectValue != nil else { preconditionFailure("not an object") }
    }
    return (used().cpu - begin) * 1e9 / Double(document.count * times)
}

let large = document(members: 900_000)
let small = document(members: 7_000)
let times = large.count / small.count
var costs: (large: [Double], small: [Double]) = ([], [])
for _ in 0..<7 {
    costs.small.append(try cost(small, times: times))
    costs.large.append(try cost(large, times: 1))
}
let (ofLarge, ofSmall) = (costs.large.sorted()[3], costs.small.sorted()[3])
print(
    String(
        format: #"{"large_bytes":%d,"small_bytes":%d,"large_ns_per_byte":%.2f,"small_ns_per_byte":%.2f,"ratio":%.2f}"#,
        large.count,
        small.count,
        ofLarge,
        ofSmall,
        ofLarge / ofSmall
    )
)
