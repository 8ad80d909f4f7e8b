internal import Foundation
internal import ChaparCore
internal import Synchronization

/// The state that the two listeners of an HMS simulator share.
final class HMSServiceState: Sendable {
    let configuration: HMSSimulatorConfiguration
    private let state: Mutex<HMSState>
    private let changeable: Mutex<HMSSimulatorConfiguration>
    private let receiptOptions = Mutex(HMSReceiptPlan())
    private let listener = Mutex<(@Sendable () -> Void)?>(nil)

    init(_ configuration: HMSSimulatorConfiguration, seed: UInt64) {
        self.configuration = configuration
        changeable = Mutex(configuration)
        state = Mutex(HMSState(seed: seed))
    }

    /// The settings in force, some of which may change while the simulator runs.
    var settings: HMSSimulatorConfiguration {
        get { changeable.withLock { $0 } }
        set { changeable.withLock { $0 = newValue } }
    }

    /// The target and the form of receipts.
    var receipts: HMSReceiptPlan {
        get { receiptOptions.withLock { $0 } }
        set { receiptOptions.withLock { $0 = newValue } }
    }

    func withState<Value: Sendable>(_ body: (inout sending HMSState) throws -> sending Value) rethrows -> Value {
        try state.withLock(body)
    }

    /// Sets the callback for due receipts.
    func onReceipts(_ callback: @escaping @Sendable () -> Void) { listener.withLock { $0 = callback } }

    /// Calls the callback for due receipts.
    func signalReceipts() { listener.withLock { $0 }?() }
}
