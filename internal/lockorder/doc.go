package lockorder
