/// The destination of an op: a device's open submission, or a plan.
enum Target {
  case device(Device)
  case plan(Plan)

  var device: Device {
    switch self {
    case .device(let device): device
    case .plan(let plan): plan.device
    }
  }
}
