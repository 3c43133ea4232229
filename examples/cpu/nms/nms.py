import torch

threshold = 0.5
objects = 96
detections = 16
image_size = 640


def box_iou(boxes):
    """Intersection over union of every box with every other."""
    areas = (boxes[:, 2] - boxes[:, 0]) * (boxes[:, 3] - boxes[:, 1])
    corner = torch.max(boxes[:, None, :2], boxes[None, :, :2])
    opposite = torch.min(boxes[:, None, 2:], boxes[None, :, 2:])
    both = (opposite - corner).clamp(min=0).prod(dim=2)
    return torch.where(both > 0, both / (areas[:, None] + areas[None, :] - both), 0)


def reference(boxes, scores):
    # Whole pixels make areas exact, so which boxes stay does not depend on rounding.
    if not torch.equal(boxes, boxes.round()) or boxes.abs().max() > 2048:
        raise ValueError("boxes must be whole pixels of an image")
    iou = box_iou(boxes)
    keep = torch.zeros(len(boxes), dtype=torch.bool)
    order = scores.argsort(descending=True, stable=True)
    while order.numel():
        best = order[0]
        keep[best] = True
        order = order[1:][iou[best, order[1:]] <= threshold]
    return keep


def inputs():
    """Several detections around each object, as a detector gives them."""
    count = objects * detections
    centre = torch.randint(image_size, (objects, 2)).repeat_interleave(detections, dim=0)
    centre = centre + torch.randint(-6, 7, (count, 2))
    half = torch.randint(12, 40, (objects, 2)).repeat_interleave(detections, dim=0) + torch.randint(-4, 5, (count, 2))
    boxes = torch.cat([centre - half, centre + half], dim=1).float()
    return [boxes, torch.rand(count)]
