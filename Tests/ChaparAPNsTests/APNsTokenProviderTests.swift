import ChaparCore
import ChaparTesting
import Testing

@testable import ChaparAPNs

@Suite("The token provider ios-apns", .timeLimit(.minutes(1)))
struct APNsTokenProviderTests {
    struct AppError: Error {}

    @Test("It keeps the promises of a TokenProvider", arguments: TokenProviderConformance.checks)
    func conformance(check: ConformanceCheck<TokenProviderConformance.Subject>) async throws {
        try await check.run(
            .init(
                provider: APNsTokenProvider { [0x9F, 0x8E, 0x00, 0xFF] },
                empty: APNsTokenProvider { nil },
                hanging: APNsTokenProvider(deadline: .milliseconds(20)) {
                    // An app that never calls back does not hear of cancellation either.
                    await withUnsafeContinuation { (_: UnsafeContinuation<[UInt8]?, Never>) in }
                },
                failing: APNsTokenProvider { throw AppError() },
                invalidTexts: [
                    "xyz", "abc", String(repeating: "a", count: 402), "9f8e-0000", "fcm:APA91bHun4MxP5egoKMwt2KZFBaFUH",
                ]
            )
        )
    }

    static let texts: [(String, String)] = [
        ("9f8e", "9f8e"), ("9F8E", "9f8e"), ("<9f8e7d6c 5b4a3928>", "9f8e7d6c5b4a3928"), (" ab ", "ab"),
        (String(repeating: "aB", count: 200), String(repeating: "ab", count: 200)),
    ]

    @Test("Brackets, blanks and case are normalised; there is no fixed length", arguments: texts)
    func validate(text: String, expected: String) throws {
        let provider = APNsTokenProvider { nil }
        #expect(try provider.validate(text) == DeviceToken(expected, service: .iOSAPNs))
    }

    @Test("Bytes become lower-case hexadecimal; no bytes are no token")
    func bytes() async throws {
        #expect(try await APNsTokenProvider { [0x00, 0xAB, 0xFF] }.token()?.value == "00abff")
        #expect(try await APNsTokenProvider { [] }.token() == nil)
        await #expect(throws: PushError.self) {
            try await APNsTokenProvider { Array(repeating: 0, count: 201) }.token()
        }
    }

    @Test("Deleting is not offered, rather than failing")
    func noDeleting() {
        let provider: any TokenProvider = APNsTokenProvider { nil }
        #expect(!(provider is any TokenDeleting))
    }

    @Test("A cancelled caller does not wait for the app")
    func cancellation() async throws {
        let provider = APNsTokenProvider(deadline: .seconds(3600)) {
            await withUnsafeContinuation { (_: UnsafeContinuation<[UInt8]?, Never>) in }
        }
        let fetch = Task { try await provider.token() }
        fetch.cancel()
        await #expect(throws: PushError.self) { try await fetch.value }
    }
}
