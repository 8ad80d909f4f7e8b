import ChaparSMS
import ChaparSMSSimulator
import ChaparCore
import ChaparSimulator
import ChaparTesting
import Testing

/// The whole way: the program of this package, its HTTP API, the platform's simulator.
@Suite("The gateway with SMS", .timeLimit(.minutes(2)))
struct WholeWayTests {
    @Test("A notification that is posted arrives at the platform")
    func delivers() async throws {
        try await Simulator.run(SMSService()) { simulator in
            let backends = ["sms": simulator.section(caFile: "ca.pem")]
            let files = ["ca.pem": simulator.certificatePEM]
            try await GatewayProcess.run("gate", backends: backends, files: files) { gateway in
                let ends = try await gateway.send(to: simulator.service.recipient, "Hello")
                #expect(ends == ["accepted_by_platform"] && simulator.service.taken == 1)
            }
        }
    }

    @Test("The program's commands know the platform and its simulator")
    func commands() async throws {
        try await Simulator.run(SMSService()) { simulator in
            let backends = ["sms": simulator.section(caFile: "ca.pem")]
            let files = ["ca.pem": simulator.certificatePEM]
            try await GatewayProcess.run("gate", backends: backends, files: files) { gateway in
                let kinds = try await gateway.command("backends", "--config", "gateway.yaml")
                #expect(kinds.text.contains("sms"), "\(kinds.text)\(kinds.errors)")
                let doctor = try await gateway.command("doctor", "--config", "gateway.yaml")
                #expect(doctor.text.contains("The platform takes the key."), "\(doctor.text)\(doctor.errors)")
                let explained = try await gateway.command("explain", "sms:unknown_address")
                #expect(explained.status == 0, "\(explained.errors)")
                let demo = try await gateway.command("demo", "--once", "--json")
                #expect(demo.status == 0 && demo.text.contains(#""story":"sms""#), "\(demo.text)\(demo.errors)")
            }
        }
    }
}
